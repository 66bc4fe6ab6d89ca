"""ECMAScript's regular expressions, which JSON schemas have, as Rust's. Pure."""

import re

_PART = re.compile(
    r"""
    \\c(?P<control>[A-Za-z])
  | (?P<named> \\[pPu]\{[^}]*\} )
  | (?P<escape> \\. )
  | (?P<class> \[ \^? (?: \\. | [^\]\\] )* \] )
  | (?P<repeat> \{ \d+ (?: , \d* )? \} )
  | (?P<brace> [{}] )
  | (?P<slash> / )
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_CLASS = re.compile(
    r"\\c(?P<control>[A-Za-z])|(?P<named>\\[pPu]\{[^}]*\})|(?P<escape>\\.)|(?P<set>[\[&~])|(?P<dashes>--)", re.DOTALL
)
# White space as ECMAScript has it; Rust's has U+0085, and not U+FEFF.
_SPACE = r"\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_WITHOUT_MEANING = frozenset("_\"'`@%&~ <>=:;,!/#-")  # escaped or not, they stand for themselves


def in_rust(pattern: str) -> str:
    """Return a pattern in Rust's syntax: within classes `[`, `&&`, `--` and `~~` mean themselves, and so do lone braces."""
    return _PART.sub(_part, pattern)


def _part(match: re.Match[str]) -> str:
    if match["control"]:
        return _control(match["control"])
    if match["escape"]:
        return _escape(match["escape"])
    if match["class"]:
        return "[" + _IN_CLASS.sub(_in_class, match["class"][1:-1]) + "]"
    if match["brace"]:
        return "\\" + match["brace"]
    return match[0]


def _in_class(match: re.Match[str]) -> str:
    if match["control"]:
        return _control(match["control"])
    if match["named"]:
        return match["named"]
    if match["escape"]:
        return match["escape"] if match["escape"] == "\\-" else _escape(match["escape"], is_within=True)
    return r"-\-" if match["dashes"] else "\\" + match["set"]


def _escape(text: str, is_within: bool = False) -> str:
    if text in (r"\s", r"\S"):
        space = f"^{_SPACE}" if text == r"\S" else _SPACE
        return space if is_within and text == r"\s" else f"[{space}]"
    if text[1] in _WITHOUT_MEANING:
        return text[1]
    return r"\x00" if text == r"\0" else text


def _control(letter: str) -> str:
    return f"\\x{ord(letter) % 32:02x}"
