"""The models that the setting `models` lists: their names and files, the default, and the settings of each one's engine."""

import difflib
import errno
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from srb.config.named_models import NAMED_MODELS
from srb.config.settings import ENV_PREFIX, HEADINGS, Settings, explain
from srb.config.values import expanded, split_commas
from srb.errors import ConfigError
from srb.reasons import reason_of

LATEST = ":latest"  # Ollama's tag of a name without one
_PART = re.compile(r"-(\d{5})-of-\d{5}$")  # of the stem of a split model's file
_FIRST_PART = "00001"
_JSON = re.compile(r"\s*(?:\[\s*[\"{]|\{\s*[\"}])")  # a list of texts or tables, or an object: no path begins so
_MOST_SHOWN = 80  # characters of a wrong path: an error is one line
# A model may have its own settings under these headings, but for those that concern the server or the list itself.
_OWN_HEADINGS = {*("Defaults of requests", "Chat", "Sampling defaults of requests", "Model and context", "Prefix tree")}
_OF_SERVER = {
    *("max_n", "completions_format", "system_prompt_file", "media_path", "media_hosts", "state_dir", "state_dir_mib"),
    *("models", "max_engines", "model_seconds"),
}
_ALSO_OWN = {"parallel", "stall_timeout"}


def _own_settings() -> frozenset[str]:
    found, heading = set(_ALSO_OWN), ""
    for name in Settings.model_fields:
        heading = HEADINGS.get(name, heading)
        if heading in _OWN_HEADINGS and name not in _OF_SERVER:
            found.add(name)
    return frozenset(found - {"model"})


OWN_SETTINGS = _own_settings()  # names of the settings that a model of the list may have for itself


@dataclass(frozen=True, slots=True)
class ListedModel:
    """One model of the list: its name, its value of the setting `model`, and the settings that it has for itself.

    Its own `alias` has further names, which mean it in requests.
    """

    name: str
    model: str
    own: Mapping[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """All names of the model, each once, the main one first."""
        return list(dict.fromkeys((self.name, *split_commas(self.own.get("alias", "")))))

    def folder(self, settings: Settings) -> Path:
        """Return the runtime folder of this model's engine, below the server's."""
        return settings.runtime_path / hashlib.sha256(self.name.encode()).hexdigest()[:8]

    def changes(self, settings: Settings) -> dict[str, Any]:
        """Return the settings in which this model's engine differs from the server."""
        files = {"models": "", "model": self.model, "runtime_dir": str(self.folder(settings))}
        return {**files, **self.own, "alias": ",".join(self.names)}

    def environ(self, settings: Settings) -> dict[str, str]:
        """Return the variables by which this model's engine gets its settings."""
        return {ENV_PREFIX + name.upper(): _variable(value) for name, value in self.changes(settings).items()}

    def settings(self, settings: Settings) -> Settings:
        """Return the settings of this model's engine."""
        return settings.model_copy(update=self.changes(settings))


def _variable(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def list_models(settings: Settings) -> dict[str, ListedModel]:
    """Return the models of the setting by their names, in their order.

    Raise ConfigError for equal names, none at all, and settings that a model cannot have, with the model's name.
    """
    items = items_of(settings.models)
    texts = [item for item in items if isinstance(item, str)]
    folder = path_of(texts[0]) if len(texts) == 1 else None
    if folder is not None and not (_is_file_name(texts[0]) or os.path.exists(folder)):
        raise ConfigError(f"models: there is no folder or file {folder}")
    found: list[ListedModel] = []
    for number, item in enumerate(items, 1):
        if isinstance(item, dict):
            found.append(_from_table(item, number))
        elif folder is not None and os.path.isdir(folder):
            found += _in_folder(folder)
        else:
            found.append(_item(item))
    return _with_own([each for each in found if each.model], [each for each in found if not each.model], settings)


def _with_own(models: list[ListedModel], others: list[ListedModel], settings: Settings) -> dict[str, ListedModel]:
    """Return models by their names; `others` are tables that give settings to one of them. Raise ConfigError."""
    listed = _by_name(models)
    for name, each in _by_name(others).items():
        if name not in listed:
            known = ", ".join(listed) or "no model"
            raise ConfigError(
                f"models: {name}: needs model, the path of its file; the list has {known} without this table"
            )
        listed[name] = replace(listed[name], own={**listed[name].own, **each.own})
    if not listed:
        raise ConfigError("models: has no model")
    checked = {name: _checked(each, settings) if each.own else each for name, each in listed.items()}
    _check_names(checked.values())
    return checked


def _check_names(models: Iterable[ListedModel]) -> None:
    """Raise ConfigError for a name that two models have."""
    found: dict[str, str] = {}
    for each in models:
        for name in each.names:
            if (other := found.setdefault(name, each.name)) != each.name:
                raise ConfigError(f"models: {other} and {each.name} both have the name {name}; see their alias")


def items_of(text: str) -> list[str | dict[str, Any]]:
    """Return the items of the setting: texts, or the texts and tables of a JSON list."""
    if text.lstrip().startswith("["):
        try:
            items = json.loads(text)
        except ValueError:
            items = None
        if isinstance(items, list) and all(isinstance(item, str | dict) for item in items):
            return items
    if _JSON.match(text):
        raise ConfigError("models: should be a JSON list of paths and of tables such as {'name': …, 'model': …}")
    return list(split_commas(text))


def path_of(item: str, setting: str = "models") -> Path:
    """Return the path that an item of a setting names. Raise ConfigError where no file can have it."""
    try:
        path = Path(expanded(item))
        path.lstat()
    except ValueError as error:  # no home folder, or a null byte
        reason = str(error)
    except OSError as error:  # a file that is missing, or cannot be read, is told by who loads it
        if error.errno != errno.ENAMETOOLONG:
            return path
        reason = "the path is too long"
    else:
        return path
    raise ConfigError(f"{setting}: {item[:_MOST_SHOWN]}{'…' * (len(item) > _MOST_SHOWN)}: {reason}")


def _from_table(table: Mapping[str, Any], number: int) -> ListedModel:
    """Return the model of a table, whose own settings are not checked yet; its path is empty if the table has none."""
    name, model = table.get("name", ""), table.get("model", "")
    for key, value in (("name", name), ("model", model), ("alias", table.get("alias", ""))):
        if not isinstance(value, str):
            raise ConfigError(f"models: {name or f'entry {number}'}: {key}: should be a text, got {value!r}")
    name = name.strip() or (_stem(Path(model)) if model else "")
    if not name:
        raise ConfigError(f"models: entry {number}: has neither a name nor a model (the path of its file)")
    if "," in name:
        raise ConfigError(f"models: {name}: name: has a comma, which separates names")
    own = {key: value for key, value in table.items() if key not in ("name", "model")}
    for key in own:
        if key in Settings.model_fields and key not in OWN_SETTINGS:
            raise ConfigError(f"models: {name}: {key}: is a setting of the server, not of one model")
        if key not in OWN_SETTINGS:
            near = difflib.get_close_matches(key, OWN_SETTINGS, n=1)
            raise ConfigError(
                f"models: {name}: unknown setting {key!r}" + (f"; did you mean {near[0]}?" if near else "")
            )
    return ListedModel(name, _file(model), own)


def _checked(listed: ListedModel, settings: Settings) -> ListedModel:
    """Return a model with its own settings in their types. Raise ConfigError, which names the model and the setting."""
    given = {name: getattr(settings, name) for name in settings.model_fields_set}
    try:
        checked = Settings(**{**given, **listed.changes(settings)})
    except ValidationError as error:
        raise ConfigError(f"models: {listed.name}: {explain(error, {})}") from None
    return replace(listed, own={name: getattr(checked, name) for name in listed.own})


def _by_name(found: Iterable[ListedModel]) -> dict[str, ListedModel]:
    models: dict[str, ListedModel] = {}
    for each in found:
        if (other := models.setdefault(each.name, each)) is not each:
            raise ConfigError(
                f"models: {other.model or 'a table'} and {each.model or 'another'} have the same name, {each.name}; "
                "give one another with NAME=PATH"
            )
    return models


def _is_file_name(item: str) -> bool:
    """Whether an item cannot mean a folder, though there is nothing at its path."""
    return item in NAMED_MODELS or "=" in item or ":" in item or item.lower().endswith(".gguf")


def _item(item: str) -> ListedModel:
    name, separator, path = item.partition("=")
    if separator and name and "/" not in name:
        return ListedModel(name.strip(), _file(path.strip()))
    if os.path.isdir(path := _file(item)):
        raise ConfigError(f"models: {item} is a folder; a list has files, and a folder stands alone")
    return ListedModel(_stem(Path(_expanded(item))), path)


def _file(model: str) -> str:
    """Return the path that a model's name stands for, or the path that is given."""
    return str(NAMED_MODELS[model].path) if model in NAMED_MODELS else _expanded(model)


def _expanded(path: str) -> str:
    """Return a path with its home folder. Raise ConfigError where no file can have it."""
    path_of(path)
    return os.path.expanduser(path)


def _in_folder(folder: Path) -> list[ListedModel]:
    """Return a folder's models in the order of their names. Raise ConfigError if there is none.

    A file is a model, unless it is a projector or a later part of a split model. A folder in it is one model, with its
    parts and its projector.
    """
    found = []
    try:
        entries = sorted(
            folder.iterdir(), key=lambda path: _stem(path).lower() if path.is_file() else path.name.lower()
        )
        for entry in entries:
            if entry.is_dir():
                models, projectors = _files(entry)
                if models:
                    own = {"mmproj": str(projectors[0])} if projectors else {}
                    found.append(ListedModel(_plain(entry.name), str(models[0]), own))
            elif entry in _files(folder, [entry])[0]:
                found.append(ListedModel(_stem(entry), str(entry)))
    except OSError as error:
        raise ConfigError(
            f"models: cannot read {error.filename or folder}: {reason_of(error, error.filename or folder)}"
        ) from None
    if not found:
        raise ConfigError(f"models: there is no GGUF file in the folder {folder}")
    return found


def _files(folder: Path, files: list[Path] | None = None) -> tuple[list[Path], list[Path]]:
    """Return the files of a folder that are models, and those that are projectors."""
    files = sorted(folder.iterdir()) if files is None else files
    files = [path for path in files if path.suffix.lower() == ".gguf" and path.is_file()]
    projectors = [path for path in files if "mmproj" in path.name.lower()]
    models = [path for path in files if path not in projectors and _part(path) in (None, _FIRST_PART)]
    return models, projectors


def _part(path: Path) -> str | None:
    found = _PART.search(path.stem)
    return found[1] if found else None


def _stem(path: Path) -> str:
    """Return a file's name as a model's: without .gguf, and without the number of a part."""
    name = path.name[: -len(".gguf")] if path.name.lower().endswith(".gguf") else path.name
    return _plain(_PART.sub("", name))


def _plain(name: str) -> str:
    return name.replace(",", "_")  # a comma separates names in the setting `alias`


def default_model(settings: Settings, models: dict[str, ListedModel]) -> str:
    """Return the name of the model that is loaded at the start, and used where a request names none.

    Raise ConfigError if the setting `model` is none of them.
    """
    if not settings.model:
        return next(iter(models))
    for name, each in models.items():
        if settings.model in (*each.names, each.model):
            return name
    path = path_of(settings.model, "model").resolve()
    for name, each in models.items():
        if path == path_of(each.model).resolve():
            return name
    raise ConfigError(f"model: {settings.model} is not among models, which has {', '.join(models)}")


def first_model(settings: Settings) -> ListedModel | None:
    """Return the model that is loaded at the start; None if the server has one model. Raise the errors of the list."""
    if not settings.models:
        return None
    models = list_models(settings)
    return models[default_model(settings, models)]


def resolve(given: str, names: Iterable[str]) -> str | None:
    """Return the model that a request's name means: case and Ollama's tag :latest do not matter. None: there is none."""
    names = list(names)
    if given in names:
        return given
    wanted = given.lower().removesuffix(LATEST)
    return next((name for name in names if name.lower().removesuffix(LATEST) == wanted), None)
