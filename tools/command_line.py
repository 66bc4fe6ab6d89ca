"""Completions for bash and zsh, and the page of the manual, made from the options of all commands."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import shtab
from argparse_manpage.manpage import Manpage

from srb.cli import config
from srb.cli import main as cli
from srb.engine.llama import rpc_node
from srb.exit_codes import OneLineParser

_FOLDER = Path(__file__).parents[1] / "config"
BASH, ZSH, FISH = (_FOLDER / "completion" / name for name in ("srb.bash", "_srb", "srb.fish"))
MAN = _FOLDER / "man/srb.1"

_FILE = re.compile(r"config|model|mmproj|.*[-_]file|models[-_]preset|spec[-_]draft[-_]model|static[-_]path|.*[-_]dir")
_ABOUT = {
    "project_name": "SRB",
    "manual_title": "User Commands",
    "description": "one prompt, many continuations",
    "date": " ",  # without one the page has the day on which it is made
}


def completion(shell: str) -> str:
    """Return the script that completes the command's words in bash, zsh or fish."""
    parsers = _parsers()
    for name in cli.WITH_SETTINGS:
        _add_options(parsers[name], parsers["serve"])
    next(each for each in parsers["config"]._actions if each.dest == "name").choices = config.names()
    parser = cli.command_line(parsers)
    for action in _actions(parser):
        # The menu has one line for each option: the beginning of what its help says.
        action.help = re.split(r"[;:(]|\. ", action.help or "")[0].strip()
        if action.choices is None and (action.metavar == "FILE" or _FILE.fullmatch(action.dest.lstrip("-"))):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    # Without shtab's advice to copy the file by hand: the wheel installs it, and a copy would grow old beside it.
    return re.sub(r"# Usage:\n(#.*\n)+", "", shtab.complete(parser, shell=shell))


def man() -> str:
    """Return the page of the manual."""
    with patch.dict(os.environ, COLUMNS="10000"):  # else lines are broken at the width of this terminal
        return str(Manpage(cli.command_line(_parsers()), _ABOUT, format="single-commands-section"))


def _parsers() -> dict[str, OneLineParser]:
    """Return the parser of each command."""
    parsers = {"serve": cli.serve_parser(), "rpc-node": rpc_node.parser()}
    parsers |= {name: cli.module_of(name).parser() for name in cli.PLAIN}
    return parsers | {name: cli.parser_with_settings(name) for name in cli.WITH_SETTINGS}


def _add_options(parser: argparse.ArgumentParser, serve: argparse.ArgumentParser) -> None:
    """Add the options of `srb serve` to a parser, except those of which it has another meaning."""
    for action in serve._actions:
        if not parser._option_string_actions.keys() & set(action.option_strings):
            parser._add_action(action)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _actions(each)
        else:
            yield action
