"""Options that two of the servers whose place this one takes use for different things, and a line that says so."""

from __future__ import annotations

from collections.abc import Sequence


def ambiguity(name: str, words: Sequence[str]) -> str:
    """Return a line for an option with its words that may mean another thing, else nothing."""
    word = words[-1] if words else ""
    if not word.isdecimal():
        return ""
    if name == "-n":
        return (
            f"-n {word}: an answer has at most {word} tokens where a request does not say; "
            f"the size of the context is -c {word}, the number of branches --n {word}"
        )
    if name == "-r":
        return (
            f'-r {word}: the text "{word}" ends every answer; the number of tokens that repeat_penalty looks at is '
            f"--repeat-last-n {word}"
        )
    return ""
