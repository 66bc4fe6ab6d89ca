"""`srb serve`: turn flags into SRB_* variables and become gunicorn, with the same process id.

The flags are made from Settings, so each setting has one, plus llama-server's names where the meaning is the same.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, Literal, NoReturn, get_args, get_origin

from pydantic.fields import FieldInfo

import srb
from srb.engine.runtime import EXIT_CONFIG
from srb.errors import ConfigError
from srb.settings import CONFIG_VARIABLE, ENV_PREFIX, Settings

# Headings of --help, each with the first setting under it; the order is that of Settings.
_GROUPS = {
    "host": "web server",
    "api_key": "access",
    "n": "requests that do not say",
    "seed": "sampling, for requests that do not say",
    "model": "model and context",
    "max_queue": "engine",
}

# Other names of a setting's flag, mostly llama-server's.
_ALIASES: dict[str, tuple[str, ...]] = {
    "model": ("-m",),
    "alias": ("-a",),
    "n_predict": ("--predict",),
    "n_ctx": ("-c", "--ctx-size"),
    "n_batch": ("-b", "--batch-size"),
    "n_ubatch": ("-ub", "--ubatch-size"),
    "n_gpu_layers": ("-ngl", "--gpu-layers"),
    "threads": ("-t",),
    "threads_batch": ("-tb",),
    "flash_attn": ("-fa",),
    "cache_type_k": ("-ctk",),
    "cache_type_v": ("-ctv",),
    "main_gpu": ("-mg",),
    "split_mode": ("-sm",),
    "tensor_split": ("-ts",),
}

# llama-server's options for what is always so here, or is done by another one.
_NOT_NEEDED: dict[str, str] = {
    "-np": "branches share one context; see --max-n",
    "--parallel": "branches share one context; see --max-n",
    "-cb": "batching is always continuous",
    "--cont-batching": "batching is always continuous",
    "-kvu": "the KV store is always one",
    "--kv-unified": "the KV store is always one",
    "-n": "say --n for the number of branches and --predict for their length",
    "--slots": "GET /slots is always served",
}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        _fail(message)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; returns only by SystemExit or by becoming another program."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = _Parser(prog="srb", description=srb.__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"srb {srb.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_serve(commands)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        _refuse(unknown[0])
    flags = {name: value for name, value in vars(options).items() if value is not None and name != "config"}
    _serve(flags, options.config)


def _serve(flags: dict[str, str | bool], config: str | None) -> NoReturn:
    environ = dict(os.environ)
    if config is not None:
        environ[CONFIG_VARIABLE] = os.path.abspath(config)
    try:
        Settings.load(flags, environ)
    except ConfigError as error:
        _fail(error.message)
    environ |= {ENV_PREFIX + name.upper(): str(value) for name, value in flags.items()}
    # `python -m gunicorn` and not the script: only this interpreter is known to have the package.
    command = [sys.executable, "-m", "gunicorn", "-c", "python:srb.gunicorn_conf", "srb.web.app:create_app()"]
    sys.stdout.flush()
    os.execve(sys.executable, command, environ)


def _add_serve(commands: Any) -> None:
    serve = commands.add_parser(
        "serve",
        help="start the server",
        usage="srb serve [options]",
        description="Start the server. A flag wins over its SRB_* variable, and that over the configuration file.",
        allow_abbrev=False,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=34, width=110),
    )
    serve.add_argument("--config", metavar="FILE", help="a TOML file of settings (config/default.toml has all of them)")
    group: Any = serve
    for name, field in Settings.model_fields.items():
        if name in _GROUPS:
            group = serve.add_argument_group(_GROUPS[name])
        _add_flag(group, name, field)


def _add_flag(group: Any, name: str, field: FieldInfo) -> None:
    """Add the flag of one setting. Its value stays text: Settings checks it, for all sources alike."""
    choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    notes = [f"one of {', '.join(choices)}"] if choices else []
    notes.append(f"default: {_shown(field.default)}")
    options: dict[str, Any] = {"dest": name, "help": f"{field.description} ({'; '.join(notes)})".replace("%", "%%")}
    if field.annotation is bool:
        options["action"] = argparse.BooleanOptionalAction
    else:
        options["metavar"] = "N" if field.annotation is int else "NAME" if choices else "TEXT"
    if name == "n_gpu_layers":
        options["type"] = _layers
    elif name == "flash_attn":
        options |= {"nargs": "?", "const": "on"}
    group.add_argument(*_ALIASES.get(name, ()), "--" + name.replace("_", "-"), **options)


def _layers(text: str) -> str:
    return "-1" if text in ("all", "auto") else text


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    return str(default) or "empty"


def _refuse(option: str) -> NoReturn:
    why = _NOT_NEEDED.get(option)
    _fail(f"{option} is not needed: {why}" if why else f"unknown option {option}; see srb serve --help")


def _fail(message: str) -> NoReturn:
    print(f"srb: {message}", file=sys.stderr)
    sys.exit(EXIT_CONFIG)


if __name__ == "__main__":
    main()
