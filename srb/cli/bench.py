"""The command `srb bench`: the time to the first token and the tokens per second of a server, for 1, 8 and 32 branches."""

import argparse
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from typing import NoReturn
from urllib.parse import urlsplit

import orjson

from srb.bench.client import BenchFailed, Server
from srb.bench.server import server
from srb.bench.speed import ProgressBar, as_json, as_text, measure, plan_for
from srb.config.settings import CONFIG_VARIABLE, ENV_PREFIX, HEADINGS, Settings
from srb.errors import ModelLoadFailed
from srb.exit_codes import EXIT_FAILED, fail
from srb.files.gguf import check_model_file

DESCRIPTION = """Measure a server: the time to the first token with a new prompt and with a known one, tokens per second, and
the gain over n requests one after another, each for one branch."""
_TOKENS, _QUICK_TOKENS = 64, 32  # of a branch: enough decode steps that the prompt's is not most of the time
_ROUNDS, _QUICK_ROUNDS = 3, 1  # whose median is told: of three, one that another program disturbed does not count


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `srb serve` does not have."""
    parser.add_argument("--json", action="store_true", help="print the numbers as one JSON object")
    parser.add_argument("--quick", action="store_true", help=f"measure once, with {_QUICK_TOKENS} tokens a branch")
    parser.add_argument("--url", metavar="URL", help="measure the server at URL (default: start one on a free port)")
    parser.add_argument(
        "--branches", metavar="N,…", type=_numbers, default=(1, 8, 32), help="numbers of branches (default: 1,8,32)"
    )


def run(asked: argparse.Namespace, settings: Settings, environ: Mapping[str, str]) -> NoReturn:
    """Print the table; the exit status is 1 if the server does not start, or refuses a request."""
    try:
        _run(asked, settings, environ)
    except (BenchFailed, ModelLoadFailed) as error:
        fail(error.message if isinstance(error, ModelLoadFailed) else str(error), EXIT_FAILED)
    except OSError as error:
        fail(f"{asked.url or 'the server'}: {error.strerror or error}", EXIT_FAILED)
    except KeyboardInterrupt:
        fail("stopped", EXIT_FAILED)
    sys.exit(0)


def _run(asked: argparse.Namespace, settings: Settings, environ: Mapping[str, str]) -> None:
    tokens, rounds = (_QUICK_TOKENS, _QUICK_ROUNDS) if asked.quick else (_TOKENS, _ROUNDS)
    keys = [each.key for each in settings.load_api_keys() if not each.is_for_metrics]
    with ExitStack() as stack:
        bar = ProgressBar(sys.stderr)
        stack.callback(bar.close)
        if asked.url:
            if urlsplit(asked.url).scheme != "http":
                raise BenchFailed(f"--url {asked.url}: should begin with http://")
            target = Server(asked.url, keys[0] if keys else "")
        else:
            check_model_file(settings)
            bar.show(0, "the server starts and loads the model")
            target = Server(stack.enter_context(server(_own_environ(settings, environ))))
        description = target.describe()
        plan = plan_for(description, asked.branches, tokens, rounds)
        bar.total = plan.requests
        speed = measure(target, plan, description["n_ctx"], bar.show)
    if asked.json:
        print(orjson.dumps(as_json(description, plan, speed), option=orjson.OPT_INDENT_2).decode())
    else:
        print(as_text(description, plan, speed), end="")


def _own_environ(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the benchmark's own server: settings of the model, its context and its memory alone.

    Keys, limits, addresses and files of the user's server stay out of it.
    """
    names = list(Settings.model_fields)
    sections = list(HEADINGS)
    first, end = sections.index("model"), sections.index("max_queue")
    wanted = names[names.index(sections[first]) : names.index(sections[end])]
    clean = {
        name: value
        for name, value in environ.items()
        if not name.startswith((ENV_PREFIX, "LLAMA_ARG_")) and name != CONFIG_VARIABLE
    }
    values = {name: getattr(settings, name) for name in (*wanted, "max_n") if name in settings.model_fields_set}
    given = {ENV_PREFIX + name.upper(): str(value) for name, value in values.items()}
    return clean | given | {"SRB_STORIES": "", "SRB_STATE_DIR": "", "SRB_N": "1"}


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) for part in parts):
        raise argparse.ArgumentTypeError("should be numbers from 1 on, such as 1,8,32")
    return tuple(map(int, parts))
