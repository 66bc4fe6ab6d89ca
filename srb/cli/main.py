"""The command `srb`. Of `srb serve` the options become SRB_* variables, and the process becomes gunicorn by exec.

`srb doctor` and `srb bench` take the same options, and look at the server that they mean. Each setting has an option of its
own name; `flags` adds llama-server's options and LLAMA_ARG_* variables.
"""

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, NoReturn, get_args, get_origin

from pydantic.fields import FieldInfo

import srb
from srb.cli.flags import FLAGS
from srb.cli.options import HELP, Options, read_options, read_variables, table
from srb.cli.presets import read_presets
from srb.config.settings import CONFIG_VARIABLE, ENV_PREFIX, HEADINGS, Settings, without_service_links
from srb.config.values import setting_text
from srb.errors import ConfigError
from srb.exit_codes import EXIT_CONFIG, OneLineParser, fail
from srb.fetch import hub
from srb.fetch.chosen_model import choose
from srb.python import module_command
from srb.version import version

_HELP_BEFORE_START = {
    "config": "TOML file of settings (srb config prints all settings)",
    "hf_repo": "download the model from Hugging Face: user/model or user/model:quant (default quant: Q4_K_M)",
    "hf_file": "name of the model's file in the Hugging Face repository",
    "hf_token": "access token for Hugging Face",
    "model_url": "download the model from this URL, with --model to that file unless it is there",
    "mmproj_url": "download the model's multimodal projector from this URL",
    "mmproj_auto": "download the projector beside the model from Hugging Face, unless --no-mmproj forbids it",
    "models_preset": "llama-server's file of presets, an INI file: several models with options of their own",
    "offline": "download nothing, use only files that were downloaded before",
}

_SOURCES = {"hf_repo", "model_url"}  # options that name a model to be downloaded
_FOR_ALL = ("hf_token", "offline", "mmproj_auto")  # options of the command line that are for all downloads

WITH_SETTINGS = ("doctor", "bench", "top", "cluster", "replica")  # about a server with the options of `srb serve`
PLAIN = ("stories", "models", "config", "service")  # commands with options of their own alone

_COMMANDS = {  # each with the line about it
    "serve": "start the server",
    "models": "list the models of this machine and those that can be fetched",
    "config": "print the list of all settings, systemd's units and the like",
    "service": "start the server at each login, by systemd or launchd",
    "stories": "list, export, import, check, back up and restore stories",
    "doctor": "show what the machine has, what the model needs and what is slow",
    "bench": "measure the server's speed",
    "top": "show what a running server does, again and again",
    "cluster": "deploy, list and stop replicas on a Ray cluster",
    "replica": "serve a model to web servers on other machines, without Ray",
    "rpc-node": "compute a part of a model for a server on another machine",
}

MAX_VARIABLE = 128 * 1024 - 64  # bytes of a setting's value: Linux's limit of one variable, less its name


class _HelpFormatter(argparse.HelpFormatter):
    """Help with one VALUE after all names of an option, as in Python 3.13."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        value = "" if action.nargs == 0 else f" {action.metavar}"
        return ", ".join(action.option_strings) + value


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; it ends with SystemExit, or the process becomes another program."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = arguments[0] if arguments else ""
    if name == "serve":
        _serve(arguments[1:])
    if name in PLAIN:
        module_of(name).main(arguments[1:])
    if name == "rpc-node":  # a process of its own, since only there llama.cpp is loaded
        os.execv(sys.executable, module_command("srb.engine.llama.rpc_node", *arguments[1:]))
    if name in WITH_SETTINGS:
        _run_with_settings(name, arguments[1:])
    parser = command_line()
    if not arguments:
        parser.print_help()
        sys.exit(EXIT_CONFIG)
    parser.parse_args(arguments)


def module_of(name: str) -> Any:
    """Return the module of a command, which only that command loads: all of them take 0.1 s."""
    return import_module(f"srb.cli.{name}")


def command_line(parsers: Mapping[str, OneLineParser] = {}) -> OneLineParser:
    """Return the parser of the whole command, in which a command has the options of its parser in `parsers`."""
    parser = OneLineParser(prog="srb", description=srb.__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"srb {version()}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, text in _COMMANDS.items():
        own = parsers.get(name)
        added = commands.add_parser(name, help=text, parents=[own] if own else [], add_help=False)
        if own:
            added.usage, added.description, added.epilog = own.usage, own.description, own.epilog
    return parser


def _serve(arguments: Sequence[str]) -> NoReturn:
    _, environ = _read(arguments, may_fetch=True)
    if not os.access(os.curdir, os.X_OK):  # gunicorn would enter it anew: `cd /root; sudo -u srb srb serve`
        os.chdir("/")
    command = module_command("srb.serve", "-c", "python:srb.serve.gunicorn_conf", "srb.web.app:create_app()")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, command, environ)


def _run_with_settings(name: str, arguments: Sequence[str]) -> NoReturn:
    """Run a command of WITH_SETTINGS: options of its own, and the options of the server that it is about."""
    asked, others = parser_with_settings(name).parse_known_args(arguments)
    settings, environ = _read(others, may_fetch=name == "replica", chooses=name != "top")
    asked.sources = read_options(others).sources
    try:
        module_of(name).run(asked, settings, environ)
    except ConfigError as error:
        fail(error.message)
    raise AssertionError(f"srb {name} has not ended")


def parser_with_settings(name: str) -> OneLineParser:
    """Return the parser of the options of a command of WITH_SETTINGS that `srb serve` does not have."""
    command = module_of(name)
    parser = OneLineParser(
        prog=f"srb {name}",
        usage=f"srb {name} [options] [-m MODEL] [options of srb serve]",
        description=command.DESCRIPTION,
        epilog="Further options, SRB_* variables and the configuration file mean what they mean to srb serve.",
        allow_abbrev=False,
    )
    command.add_options(parser)
    return parser


def _read(arguments: Sequence[str], *, may_fetch: bool, chooses: bool = True) -> tuple[Settings, dict[str, str]]:
    """Return the settings of `srb serve` with these options, and the environment that hands them on.

    Wrong ones end this process with one line, --help with the help. With `may_fetch` the model that the setting `model`
    names is fetched if it is missing; files that options such as --model-url name always are. Without `chooses` no
    model is looked for.
    """
    flags, variables = Options(), Options()
    environ = without_service_links(os.environ)
    try:
        flags = read_options(arguments)
        if "help" in flags.values:
            serve_parser().print_help()
            sys.exit(0)
        variables = read_variables(environ)
        _warn(variables.without_effect | flags.without_effect)
        for line in flags.ambiguities:
            print(f"srb: {line}", file=sys.stderr)
        if "config" in flags.values:
            environ[CONFIG_VARIABLE] = os.path.abspath(flags.values["config"])
        if flags.values.get("api_key") == "":  # an unset variable in a shell script must not open the server
            raise ConfigError("--api-key is empty; give a key, or leave the option out")
        given = _settings(flags, variables, environ)
        settings = Settings.load(flags=given, environ=environ)
        values = variables.values | flags.values
        if chooses:
            given |= choose(
                settings,
                may_fetch=may_fetch and values.get("offline") != "true",
                token=values.get("hf_token", ""),
                projector=values.get("mmproj_auto") != "false",
            )
            settings = Settings.load(flags=given, environ=environ)
        settings.load_api_keys()
        _check_lengths(given)
    except ConfigError as error:
        fail(_with_sources(error.message, flags, variables))
    return settings, environ | {ENV_PREFIX + name.upper(): value for name, value in given.items()}


def _check_lengths(given: Mapping[str, str]) -> None:
    """Raise ConfigError for a value that no variable can hand on: the exec would fail with "Argument list too long"."""
    for name, value in given.items():
        if (size := len(value.encode())) > MAX_VARIABLE:
            instead = "give long texts by their files (chat-template-file), or the setting in a configuration file"
            raise ConfigError(f"{name}: has {size} bytes, and a variable has room for {MAX_VARIABLE}; {instead}")


def _settings(flags: Options, variables: Options, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that were given; `model` is the path of the downloaded file if one was asked for."""
    values = variables.values | flags.values
    settings = {name: value for name, value in values.items() if name in Settings.model_fields}
    if "models_preset" in values:
        settings |= _presets(values, settings, environ)
    # A model of the command line stands alone: else -m beside a service's LLAMA_ARG_HF_REPO would exclude each other.
    asked = flags if {"model", "hf_repo", "model_url"} & flags.values.keys() else variables
    sources = {"model", "hf_repo", "model_url"} & asked.values.keys()
    if len(sources) > 1 and sources != {"model", "model_url"}:
        raise ConfigError(" and ".join(asked.sources[name] for name in sorted(sources)) + " exclude each other")
    if asked is variables and ENV_PREFIX + "MODEL" in environ:
        return settings
    if "hf_file" in flags.values and not sources & _SOURCES:
        raise ConfigError(f"{flags.sources['hf_file']} needs --hf-repo")
    chosen = {name: value for name, value in values.items() if name not in (_SOURCES | {"model"}) - sources}
    if "models" in settings or ENV_PREFIX + "MODELS" in environ:
        chosen["mmproj_auto"] = "false"  # a projector of one of several models belongs into its section
    return settings | _downloaded(chosen)


def _presets(values: Mapping[str, str], settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a file of presets adds to those that were given."""
    listed = settings.get("models", environ.get(ENV_PREFIX + "MODELS", ""))

    def download(options: Mapping[str, str]) -> dict[str, str]:
        return _downloaded({**{name: values[name] for name in _FOR_ALL if name in values}, **options})

    presets = read_presets(values["models_preset"], listed, settings, download)
    _warn(presets.without_effect)
    found = {name: value for name, value in presets.settings.items() if ENV_PREFIX + name.upper() not in environ}
    if presets.first and not {"model", "hf_repo", "model_url"} & values.keys() and ENV_PREFIX + "MODEL" not in environ:
        found["model"] = presets.first
    return {**found, "models": presets.models}


def _downloaded(values: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for the files that options such as --hf-repo name, which are downloaded; {} without any."""
    offline, found = values.get("offline") == "true", {}
    if "hf_repo" in values:
        token = values.get("hf_token", "")
        found["model"] = str(hub.fetch_from_hub(values["hf_repo"], values.get("hf_file", ""), token, offline))
        if "mmproj" not in values and "mmproj_url" not in values and values.get("mmproj_auto") != "false":
            projector = hub.fetch_projector(values["hf_repo"], token, offline)
            found |= {"mmproj": str(projector)} if projector else {}
    elif "model_url" in values:
        found["model"] = str(hub.fetch_from_url(values["model_url"], offline, target=values.get("model", "")))
    if "mmproj_url" in values and "mmproj" not in values:
        found["mmproj"] = str(hub.fetch_from_url(values["mmproj_url"], offline, "--mmproj-url"))
    return found


def _with_sources(message: str, *given: Options) -> str:
    """Replace the option's name in a message of Settings by the option or variable that the user gave."""
    for options in given:
        for name, source in options.sources.items():
            message = message.replace(f"(from --{name.replace('_', '-')})", f"(from {source})")
    return message


def _warn(without_effect: Mapping[str, str]) -> None:
    for name, why in without_effect.items():
        print(f"srb: {name} has no effect: {why}", file=sys.stderr)


# Help -----------------------------------------------------------------------------------------------------------------


def serve_parser() -> OneLineParser:
    """Return a parser of the options of `srb serve`, for its help; `options` reads them."""
    parser = OneLineParser(
        prog="srb serve",
        usage="srb serve [options]",
        description="Start the server. In order of precedence, a setting comes from its option, its SRB_* variable, "
        "llama-server's LLAMA_ARG_* variable, the configuration file, or the profile.",
        epilog="Options accepted without effect, with a warning: " + ", ".join(_without_effect()),
        add_help=False,
        formatter_class=lambda prog: _HelpFormatter(prog, max_help_position=34, width=110),  # as the doctor's lines
    )
    names = _names_by_setting()
    parser.add_argument(*HELP.names.split(), action="store_true", help="show this help and exit")
    for name, text in _HELP_BEFORE_START.items():
        _describe(parser, names[name], text, switch=name in ("offline", "mmproj_auto"))
    group: Any = parser
    for name, info in Settings.model_fields.items():
        if name in HEADINGS:
            group = parser.add_argument_group(HEADINGS[name])
        _add_setting(group, names[name], info)
    return parser


def _add_setting(group: Any, names: list[str], info: FieldInfo) -> None:
    choices = get_args(info.annotation) if get_origin(info.annotation) is Literal else ()
    notes = [f"one of {', '.join(choices)}"] if choices else []
    notes.append(f"default: {setting_text(info.default)}")
    metavar = "N" if info.annotation in (int, float) else "NAME" if choices else "TEXT"
    text = f"{info.description} ({'; '.join(notes)})"
    _describe(group, names, text, info.annotation is bool, metavar, choices)


def _describe(
    group: Any, names: list[str], text: str, switch: bool, metavar: str = "TEXT", choices: Sequence[str] = ()
) -> None:
    options: dict[str, Any] = {"action": "store_true"} if switch else {"metavar": metavar, "choices": choices or None}
    group.add_argument(*names, dest=names[-1], help=text.replace("%", "%%"), **options)


def _names_by_setting() -> dict[str, list[str]]:
    """Return the spellings of each setting's option, short ones first and the setting's own name last.

    An option of several settings is listed with the first. Options for one value of a setting, such as -v, are left out.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for name, flags in table().items():
        if flags[0].sets and flags[0].value == "true":
            found[flags[0].sets].append(name)
    return {setting: sorted(names, key=lambda name: _sort_key(name, setting)) for setting, names in found.items()}


def _sort_key(name: str, setting: str) -> tuple[bool, bool, bool]:
    own = setting.replace("_", "-")
    return name in (f"--{own}", f"--no-{own}"), name.startswith("--"), name.startswith("--no-")


def _without_effect() -> list[str]:
    idle = (flag.names.split() for flag in FLAGS if flag.why and not flag.refused)
    return [next((name for name in names if name.startswith("--")), names[0]) for names in idle]


if __name__ == "__main__":
    main()
