"""The command `srb config`: print all settings, or another file that a deployment needs, such as a systemd unit."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import srb
from srb.exit_codes import OneLineParser, fail, reader_may_leave

DEFAULT = "default.toml"
FOLDER = Path(srb.__file__).parent / "config" / "files"  # the wheel's; in a clone a link to its folder config


def main(arguments: Sequence[str]) -> NoReturn:
    """Print what was asked for; the exit status is 2 for a name that no file has."""
    asked = parser().parse_args(arguments)
    text = (
        "".join(f"{name}\n" for name in names()).encode() if asked.list else (FOLDER / _file(asked.name)).read_bytes()
    )
    with reader_may_leave():
        sys.stdout.buffer.write(text)
    sys.exit(0)


def parser() -> OneLineParser:
    found = OneLineParser(prog="srb config", description=__doc__, allow_abbrev=False)
    found.add_argument("name", metavar="FILE", nargs="?", default=DEFAULT, help=f"name of a file (default: {DEFAULT})")
    found.add_argument("--list", action="store_true", help="print the names of all files")
    return found


def names() -> list[str]:
    """Return the names of all files, with their folders."""
    return sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("**/*") if path.is_file())


def _file(name: str) -> str:
    """Return the file that has a name, which may be given with its folder."""
    found = [each for each in names() if name == each] or [each for each in names() if name == Path(each).name]
    if not found:
        fail(f"there is no file {name!r}; srb config --list names all")
    if len(found) > 1:
        fail(f"{name} may be {' or '.join(found)}")
    return found[0]
