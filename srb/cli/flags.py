"""llama-server's options as options of `srb serve`: the setting of each, or the reason why it has no effect here.

They are listed in flags.toml. In addition every setting has an option of its own name (see options.py).
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from srb.config.sampling_params import PARAMETERS
from srb.errors import ConfigError

TRUE, FALSE = ("on", "enabled", "true", "1"), ("off", "disabled", "false", "0")
ON_OFF_AUTO = (*TRUE, *FALSE, "auto", "-1")
# No settings: the download of the model and its projector.
BEFORE_START = ("hf_repo", "hf_file", "hf_token", "model_url", "mmproj_url", "mmproj_auto", "offline", "models_preset")
NOT_YET = "not supported yet"

_NO_LIMIT_MIB = 2**30  # a PiB, more than any machine has: the setting knows no word for "no limit"
_NO_LIMIT_ENGINES = 64  # the most that max_engines takes
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "'": "'", '"': '"', "\\": "\\"}


@dataclass(frozen=True, slots=True)
class Flag:
    """One setting of an option; an option that sets two has two Flags, which differ in `sets`, `convert` and `value`.

    An option takes one word, the setting's value. A `switch` takes none: its `names` set `value`, its names in `off`
    set "false". `convert` makes the value of all words that the command line has for the option, in their order.
    """

    names: str  # separated by spaces
    sets: str = ""  # a setting, or one of BEFORE_START; empty: nothing, for the reason in `why`
    variable: str = ""
    off: str = ""
    switch: bool = False
    value: str = "true"
    convert: Callable[[Sequence[str]], str] | None = None
    adds: bool = False  # the value is appended, after a comma, to the value from earlier options
    optional: Sequence[str] = ()  # the possible words of an option whose word may be missing
    words: int = 1
    why: str = ""
    # By spelling: the line about one that means another thing on another server, {0} for its number.
    notes: Mapping[str, str] = field(default_factory=dict, hash=False)
    refused: bool = False  # an error: without the option, another model would be served or another program was meant

    def value_of(self, words: Sequence[str]) -> str:
        """Return the setting's value for the words of the option."""
        return self.convert(words) if self.convert else words[-1]


def _layers(words: Sequence[str]) -> str:
    return "-1" if words[-1] in ("all", "auto") else words[-1]


_NO_DRAFTS = ("draft-dspark",)
_DRAFTS = dict.fromkeys(("draft-simple", "draft-eagle3", "draft-dflash"), "draft") | {"draft-mtp": "mtp"}
_BOTH: dict[tuple[str, ...], str] = {("draft", "ngram"): "both", ("mtp", "ngram"): "ngram-mtp"}


def _on_off_auto(words: Sequence[str]) -> str:
    word = words[-1]
    return "on" if word in TRUE else "off" if word in FALSE else "auto" if word == "-1" else word


def _auto(words: Sequence[str]) -> str:
    return "-1" if words[-1] == "auto" else words[-1]


def _mebibytes(words: Sequence[str]) -> str:
    return str(_NO_LIMIT_MIB) if words[-1] == "-1" else words[-1]


def _engines(words: Sequence[str]) -> str:
    return str(_NO_LIMIT_ENGINES) if words[-1] == "0" else words[-1]  # 0 is no limit


def _maps(words: Sequence[str]) -> str:
    return str(words[-1] in ("auto", "mmap", "mmap+mlock")).lower()


def _locks(words: Sequence[str]) -> str:
    return str(words[-1] in ("mlock", "mmap+mlock")).lower()


def _severity(words: Sequence[str]) -> str:
    """Return the log level of llama-server's number, which counts upwards from errors; the setting refuses other words."""
    levels = {"-1": "error", "0": "error", "1": "error", "2": "warning", "3": "info"}
    return levels.get(words[-1], "debug" if words[-1].isdigit() else words[-1])


def _speculation(words: Sequence[str]) -> str:
    """Return the setting for llama-server's types; those that look up n-grams in the text are one here.

    Raise ConfigError for those that are not there.
    """
    types = words[-1].split(",")
    if missing := [each for each in types if each in _NO_DRAFTS]:
        raise ConfigError(
            f"--spec-type: {missing[0]} is not there, drafts come from the text (ngram-simple), from a small model or a "
            "head in a file (draft-simple, draft-eagle3 and draft-dflash, with --spec-draft-model) or from the model's own "
            "head (draft-mtp); without --spec-type the server chooses"
        )
    kinds = sorted({"ngram" if each.startswith("ngram") else _DRAFTS.get(each, each) for each in types})
    return kinds[0] if len(kinds) == 1 else _BOTH.get(tuple(kinds), words[-1])


def _inverse(words: Sequence[str]) -> str:
    try:
        return str(1 / float(words[-1]))
    except (ValueError, ZeroDivisionError):
        return words[-1]  # the setting refuses it


def _scaled(words: Sequence[str]) -> str:
    """Convert llama-server's `path:scale,…` to the setting's `path=scale,…`."""
    return ",".join("=".join(part.rsplit(":", 1)) for part in words[-1].split(","))


def _range(words: Sequence[str]) -> str:
    return ",".join(words[-2:])


def _letters(words: Sequence[str]) -> str:
    return ";".join(words[-1])


def _unescaped(words: Sequence[str]) -> str:
    """Return the words as a JSON list, with escapes such as \\n replaced as llama-server does."""
    texts = [re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), word, flags=re.DOTALL) for word in words]
    return orjson.dumps(texts).decode()


def _breakers(words: Sequence[str]) -> str:
    return _unescaped([] if words[-1] == "none" else words)


def _file_text(words: Sequence[str]) -> str:
    try:
        return Path(words[-1]).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {words[-1]}: {getattr(error, 'strerror', None) or 'it is not text'}") from None


_CONVERSIONS: dict[str, Callable[[Sequence[str]], str]] = {
    each.__name__.removeprefix("_"): each
    for each in (
        _auto, _breakers, _engines, _file_text, _inverse, _layers, _letters, _locks, _maps, _mebibytes,
        _on_off_auto, _range, _scaled, _severity, _speculation, _unescaped,
    )
}  # fmt: skip


def _with_effect(names: str, sets: str, *rest: str | dict[str, Any]) -> Flag:
    """Return the Flag of a row of flags.toml."""
    more = dict(rest[-1]) if rest and isinstance(rest[-1], dict) else {}
    if "convert" in more:
        more["convert"] = _CONVERSIONS[more["convert"]]
    if words := more.get("optional"):
        more["optional"] = ON_OFF_AUTO if words == "on off auto" else tuple(words)
    variable = rest[0] if rest and isinstance(rest[0], str) else ""
    return Flag(names, sets, variable, switch=more.pop("switch", "off" in more), **more)


def _without_effect(lines_by_reason: dict[str, str], refused: bool) -> Iterator[Flag]:
    for why, lines in lines_by_reason.items():
        for parts in map(str.split, lines.strip().split("\n")):
            names = " ".join(part for part in parts if part[0] == "-")
            values = next((part[1:] for part in parts if part[0] == "="), "1")
            optional = ON_OFF_AUTO if values == "?" else ()
            words = 1 if optional else int(values)
            variable = next((part for part in parts if part[0].isupper()), "")
            yield Flag(names, "", variable, "", not words, optional=optional, words=words, why=why, refused=refused)


_LISTED = tomllib.loads(Path(__file__).with_name("flags.toml").read_text("utf-8"))
FLAGS = (
    *(_with_effect(*row) for row in _LISTED["with_effect"]),
    *(
        Flag(each.flags, name, each.variable, switch=each.type is bool)
        for name, each in PARAMETERS.items()
        if each.flags
    ),
    *_without_effect(_LISTED["without_effect"], refused=False),
    *_without_effect(_LISTED["refused"], refused=True),
)
