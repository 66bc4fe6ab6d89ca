"""The command `srb doctor`: the facts about machine, llama.cpp and model, and what stops or slows a server."""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn

import orjson

from srb.config.settings import Settings
from srb.doctor.checkup import Neighbour, examine, largest_models
from srb.doctor.findings import Level, findings
from srb.doctor.places import obstacles
from srb.doctor.report import as_json, as_text
from srb.errors import ConfigError, ModelLoadFailed
from srb.models.listed import first_model

DESCRIPTION = """Show what this machine has, what the model needs and what fits, and what stops a server or slows it down,
with the setting to change. The exit status is 1 if something would stop the server."""
EXIT_PROBLEM = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `srb serve` does not have."""
    parser.add_argument("--json", action="store_true", help="print the facts and the findings as one JSON object")


def run(asked: argparse.Namespace, settings: Settings, environ: Mapping[str, str]) -> NoReturn:
    """Print the report; the exit status is 1 if something would stop the server."""
    try:
        found_obstacles = obstacles(settings)
        largest: tuple[Neighbour, ...] = ()
        if (listed := first_model(settings)) is not None:  # of several models, the one that is loaded first
            largest = largest_models(settings, environ)
            settings, environ = listed.settings(settings), {**environ, **listed.environ(settings)}
        checkup = replace(examine(settings, environ), largest=largest, obstacles=found_obstacles)
    except (ModelLoadFailed, ConfigError) as error:
        print(f"srb: {error.message}", file=sys.stderr)
        sys.exit(EXIT_PROBLEM)
    found = findings(checkup)
    if asked.json:
        print(orjson.dumps(as_json(checkup, found), option=orjson.OPT_INDENT_2).decode())
    else:
        print(as_text(checkup, found), end="")
    sys.exit(EXIT_PROBLEM if any(each.level is Level.PROBLEM for each in found) else 0)
