"""Command-line words and LLAMA_ARG_* variables, read as values of settings."""

import difflib
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from srb.cli.flags import FALSE, FLAGS, TRUE, Flag
from srb.config.settings import ENV_PREFIX, Settings
from srb.errors import ConfigError

HELP = Flag("-h --help --usage", "help", switch=True)
CONFIG = Flag("--config", "config")


@dataclass
class Options:
    """Parsed options: the value and the source of each setting, and the options without effect, with their reasons."""

    values: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    without_effect: dict[str, str] = field(default_factory=dict)
    ambiguities: list[str] = field(default_factory=list)  # a line for each option that may mean another thing

    def take(self, flag: Flag, value: str, source: str) -> None:
        self.values[flag.sets] = value
        self.sources[flag.sets] = source


def table() -> dict[str, list[Flag]]:
    """Return the Flags of each option by its spellings: those of `flags`, and one for each setting."""
    found: dict[str, list[Flag]] = defaultdict(list)
    for flag in (*FLAGS, HELP, CONFIG):
        for name in (*flag.names.split(), *flag.off.split()):
            found[name].append(flag)
    for setting, info in Settings.model_fields.items():
        name = setting.replace("_", "-")
        switch = info.annotation is bool
        if f"--{name}" not in found:
            found[f"--{name}"].append(Flag(f"--{name}", setting, switch=switch))
        if switch and f"--no-{name}" not in found:
            found[f"--no-{name}"].append(Flag("", setting, off=f"--no-{name}", switch=True))
    return dict(found)


def read_options(arguments: Sequence[str]) -> Options:
    """Read a command line; raise ConfigError for an option that is unknown, refused or lacks its value."""
    options, known = Options(), table()
    given: dict[Flag, list[str]] = defaultdict(list)
    words = deque(arguments)
    while words:
        name, separator, value = _split(words.popleft())
        flags = known.get(name)
        if flags is None:
            raise ConfigError(_unknown(name, known))
        if separator:
            words.appendleft(value)
        taken = _words_of(flags[0], name, words, bool(separator))
        if (note := flags[0].notes.get(name)) and taken[-1].isdecimal():
            options.ambiguities.append(note.format(taken[-1]))
        for flag in flags:
            _check(flag, name)
            if flag.why:
                options.without_effect[name] = flag.why
            elif flag.switch:
                options.take(flag, "false" if name in flag.off.split() else flag.value, name)
            else:
                given[flag] += taken  # all words count, and not the last alone: -r twice is two stop strings
                before = f"{options.values[flag.sets]}," if flag.adds and flag.sets in options.values else ""
                options.take(flag, before + flag.value_of(given[flag]), name)
    return options


def read_variables(environ: Mapping[str, str]) -> Options:
    """Read llama-server's variables; a variable is ignored if its setting's SRB_* variable exists."""
    options = Options()
    for flag in FLAGS:
        if flag.sets and ENV_PREFIX + flag.sets.upper() in environ:
            continue
        opposite = flag.variable.replace("LLAMA_ARG_", "LLAMA_ARG_NO_") if flag.off else ""
        if opposite in environ:
            options.take(flag, "false", opposite)
        elif flag.variable in environ:
            _read_variable(flag, environ[flag.variable], options)
    return options


def _read_variable(flag: Flag, value: str, options: Options) -> None:
    name = flag.variable
    _check(flag, name)
    if flag.why:
        options.without_effect[name] = flag.why
    elif not flag.switch:
        options.take(flag, flag.value_of([value]), name)
    elif value in TRUE:
        options.take(flag, flag.value, name)
    elif value not in FALSE:
        raise ConfigError(f"{name}: should be on or off, got {value!r}")
    elif flag.off:
        options.take(flag, "false", name)


def _split(word: str) -> tuple[str, str, str]:
    """Split `--name=value` into its three parts; underscores in the name become dashes, as in llama-server."""
    if not word.startswith("-") or word == "-":
        meant = f"did you mean --model {word}?" if word.endswith(".gguf") else "options begin with a dash"
        raise ConfigError(f"unexpected argument {word!r}; {meant}")
    name, separator, value = word.partition("=")
    return name.replace("_", "-") if name.startswith("--") else name, separator, value


def _words_of(flag: Flag, name: str, words: deque[str], attached: bool) -> list[str]:
    """Take the words of an option, even words that begin with a dash."""
    if flag.switch:
        if attached:
            raise ConfigError(f"{name} takes no value, got {words[0]!r}")
        return []
    if flag.optional and not attached and (not words or words[0] not in flag.optional):
        return [flag.optional[0]]
    if len(words) < flag.words:
        raise ConfigError(f"{name} needs {'a value' if flag.words == 1 else f'{flag.words} values'}")
    return [words.popleft() for _ in range(flag.words)]


def _check(flag: Flag, name: str) -> None:
    if flag.refused:
        raise ConfigError(f"{name} is not supported: {flag.why}")


def _unknown(name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, known, n=3)
    near.sort(key=lambda each: sorted(each) != sorted(name))  # --prot is --port with two letters changed, not --prio
    return f"unknown option {name}; " + (f"did you mean {near[0]}?" if near else "see srb serve --help")
