"""The command `srb cluster`: replicas on a Ray cluster are deployed, listed and stopped."""

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NoReturn

from pydantic import ValidationError

from srb.cluster.arguments import Arguments, Row
from srb.config.request_settings import EngineSettings
from srb.config.settings import Settings
from srb.errors import ConfigError

DESCRIPTION = """Deploy replicas of the engine on a Ray cluster, list them, or stop them. `srb serve --cluster ADDRESS` then
answers with them. deploy again with other options replaces the replicas one by one, without refusing a request."""
_WATCH_SECONDS = 2.0  # as `srb top`: replicas take seconds to begin and to end
_NEEDS_RAY = "srb cluster needs Ray, which is not installed: pip install 'llama-srb[cluster]'"

# Settings of an engine that belong to one machine's server, and not to replicas.
DOORS = {"door_token_file"}
_LOCAL = {"engine_managed", "runtime_dir", "cluster", "replicas"} | DOORS
_SHARED = {"log_level", "log_format", "graceful_timeout"}  # settings of the web tier that the engine reads too
_READ = set(EngineSettings.__annotations__) - _LOCAL | _SHARED


# Options of numbers: name, type, default, and what it is.
_NUMBERS: tuple[tuple[str, Callable[[str], float], float, str], ...] = (
    ("replicas", int, 1, "number of replicas, or the fewest (default: 1)"),
    ("max-replicas", int, 0, "most replicas, by their open branches; 0: --replicas (default)"),
    ("target-branches", float, 16, "open branches that each replica should have (default: 16)"),
    ("scale-up-seconds", float, 30, "wait before more replicas are started (default: 30)"),
    ("scale-down-seconds", float, 600, "wait before replicas are ended (default: 600)"),
    ("gpus", float, 0, "GPUs of each replica (default: 0)"),
    ("cpus", float, 1, "CPUs of each replica, as Ray counts them (default: 1)"),
    ("door-port", int, 0, "TCP port of the replicas; 0: any (default)"),
    ("drain-seconds", float, 600, "time that running requests have when a replica ends"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `srb serve` does not have."""
    parser.add_argument("action", choices=("deploy", "status", "stop"))
    for name, kind, default, about in _NUMBERS:
        parser.add_argument(f"--{name}", type=kind, default=default, help=about)
    surge = "start a new replica before an old one ends, where a machine has room for both (default)"
    parser.add_argument("--surge", action=argparse.BooleanOptionalAction, default=True, help=surge)
    parser.add_argument("--watch", action="store_true", help="with status: print the table again every two seconds")


def run(asked: argparse.Namespace, settings: Settings, environ: Mapping[str, str]) -> NoReturn:
    """Do what was asked; the exit status is 1 if the cluster cannot be reached or does not do it."""
    if importlib.util.find_spec("ray") is None:
        raise ConfigError(_NEEDS_RAY)
    from srb.cluster import operate

    address = settings.cluster or "auto"
    try:
        match asked.action:
            case "deploy":
                operate.deploy(
                    address, _arguments(asked, settings), lambda word: print(word, file=sys.stderr, flush=True)
                )
                _print_table(*operate.look(address))
            case "status":
                _print_table(*operate.look(address))
                while asked.watch:
                    time.sleep(_WATCH_SECONDS)
                    _print_table(*operate.look(address))
            case "stop":
                print("stopped" if operate.stop(address) else "not deployed")
    except (ConnectionError, RuntimeError) as error:
        print(f"srb: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:  # of --watch, or of who waits no longer for the replicas: Serve goes on
        sys.exit(130)
    sys.exit(0)


def engine_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that were given and that an engine reads. Raise ConfigError for several models."""
    if settings.models:
        raise ConfigError("models: a replica has one model; name it with --model")
    return {name: value for name, value in settings.model_dump(exclude_unset=True).items() if name in _READ}


def refuse_unread(sources: Mapping[str, str], own: Set[str], server: str) -> None:
    """Raise ConfigError for an option that neither the command, which has `own` ones, nor its replicas read.

    Variables and the configuration file may be those of a web machine too.
    """
    for name, option in sources.items():
        if name in Settings.model_fields and name not in _READ | own:
            raise ConfigError(f"{option}: replicas do not read this; give it to `{server}` on the web machines")


def _arguments(asked: argparse.Namespace, settings: Settings) -> Arguments:
    """Return the application's Arguments. Raise ConfigError, which names the option."""
    refuse_unread(asked.sources, {"cluster"}, "srb serve --cluster")
    given = {name: getattr(asked, name) for name in Arguments.model_fields if name != "settings"}
    try:
        return Arguments(**given, settings=engine_settings(settings))
    except ValidationError as error:
        [first, *_] = error.errors()
        option = "".join(f"--{name}: ".replace("_", "-") for name in first["loc"][:1])
        raise ConfigError(option + first["msg"].removeprefix("Value error, ")) from None


_HEADINGS = ("replica", "node", "gpu", "state", "model", "requests", "branches", "cells", "hits", "tokens/s")


def _print_table(word: str, rows: Sequence[Row]) -> None:
    print(table(word, rows), flush=True)


def table(word: str, rows: Sequence[Row]) -> str:
    """Return the replicas as a table of text, under Serve's word on all of them."""
    lines = [_HEADINGS, *map(_cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS))]
    shown = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)
    return "\n".join([word, *shown])


def _cells(row: Row) -> tuple[str, ...]:
    stats, entry = row.stats, row.entry
    named = (row.name.rpartition("#")[2], entry["node"], ",".join(entry["gpus"]) or "-", entry["state"], entry["alias"])
    if not stats:
        return (*named, "-", "-", "-", "-", "-")
    used = f"{stats['kv_cells_used']:.0f}/{stats['kv_cells']:.0f}"
    cached, computed = stats["prompt_tokens_cached_total"], stats["prompt_tokens_total"]
    hits = f"{cached / (cached + computed):.0%}" if cached + computed else "-"
    seconds = stats["tokens_predicted_seconds_total"]
    speed = f"{stats['tokens_predicted_total'] / seconds:.0f}" if seconds else "-"
    running = f"{stats['requests_processing']:.0f}"
    return (*named, running, f"{stats['branches_running']:.0f}", used, hits, speed)
