"""Table of llama-server's options in docs/compatibility.md; `python -m tools.generated` writes it."""

from __future__ import annotations

from srb.cli.flags import BEFORE_START, FLAGS, NOT_YET, Flag

HEADING = "## Options of the command line"
INTRODUCTION = """\
`srb serve` takes all of these options. An option without effect is accepted, and one line says so; an option that is refused
would have served another model, or none. Any other option is an error, unless it is a setting's. Of `--spec-type` all
`ngram-*` are one [look into the text](using/speculation.md), `draft-mtp` uses the head in the model's file, `draft-eagle3`
and `draft-dflash` one in a file of its own, and `draft-dspark` is refused.
`python -m tools.generated` generates this table from `srb/cli/flags.toml`.
"""


def render() -> str:
    """Return the section: options in the order of srb/cli/flags.toml, those of which the same is said in one row."""
    options: dict[str, list[Flag]] = {}
    for flag in FLAGS:
        options.setdefault(flag.names, []).append(flag)
    rows: dict[str, list[str]] = {}  # options by what is said of them
    for flags in options.values():
        rows.setdefault(_state(flags), []).append(_options(flags[0]))
    lines = [f"| {'; '.join(names)} | {state} |" for state, names in rows.items()]
    return "\n".join([HEADING, "", INTRODUCTION, "| option, variable | |", "|---|---|", *lines]) + "\n"


def _options(flag: Flag) -> str:
    return ", ".join(f"`{name}`" for name in [*flag.names.split(), *flag.off.split(), flag.variable] if name)


def _state(flags: list[Flag]) -> str:
    if flags[0].refused:
        return f"refused: {flags[0].why}"
    if flags[0].why == NOT_YET:
        return "not yet"
    if flags[0].why:
        return f"no effect: {flags[0].why}"
    if flags[0].sets in BEFORE_START:
        return "same: done before the start"
    return "same: " + ", ".join(f"`{flag.sets}`" for flag in flags)


def page(text: str) -> str:
    """Return the page `text` with a new section of options."""
    before, _, rest = text.partition(HEADING)
    after = rest[rest.index("\n## ") + 1 :] if "\n## " in rest else ""
    return before + render() + ("\n" + after if after else "")
