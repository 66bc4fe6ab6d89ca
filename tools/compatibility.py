"""Write the table of llama-server's options into docs/compatibility.md, from srb/flags.py: python -m tools.compatibility"""

from __future__ import annotations

from pathlib import Path

from srb.flags import BEFORE_START, FLAGS, Flag

PAGE = Path(__file__).parents[1] / "docs" / "compatibility.md"
HEADING = "## Options of the command line"
INTRODUCTION = """\
`srb serve` takes all of these, as `srb/flags.py` has them (this table is made from it). One without effect is accepted with
one line that says so; one that is refused would have served another model, or none. Any other option is an error, unless it
is a setting's.
"""


def render() -> str:
    """Return the section with one row for each option, in the order of srb/flags.py."""
    rows: dict[str, list[Flag]] = {}
    for flag in FLAGS:
        rows.setdefault(flag.names, []).append(flag)
    lines = [f"| {_options(flags[0])} | {_state(flags)} |" for flags in rows.values()]
    return "\n".join([HEADING, "", INTRODUCTION, "| option, variable | |", "|---|---|", *lines]) + "\n"


def _options(flag: Flag) -> str:
    return ", ".join(f"`{name}`" for name in [*flag.names.split(), *flag.off.split(), flag.variable] if name)


def _state(flags: list[Flag]) -> str:
    if flags[0].refused:
        return f"refused: {flags[0].why}"
    if flags[0].why == "it is not there yet":
        return "not yet"
    if flags[0].why:
        return f"no effect: {flags[0].why}"
    if flags[0].sets in BEFORE_START:
        return "same: done before the start"
    return "same: " + ", ".join(f"`{flag.sets}`" for flag in flags)


def main() -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(HEADING)
    after = rest[rest.index("\n## ") + 1 :] if "\n## " in rest else ""
    PAGE.write_text(before + render() + ("\n" + after if after else ""))


if __name__ == "__main__":
    main()
