"""The models that the setting `models` lists: their names and files, the default, and the settings of each one's engine."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from srb.errors import ConfigError
from srb.settings import ENV_PREFIX, Settings, split_commas

LATEST = ":latest"  # Ollama's tag of a name without one
_PART = re.compile(r"-(\d{5})-of-\d{5}$")  # of the stem of a split model's file
_FIRST_PART = "00001"


@dataclass(frozen=True, slots=True)
class ListedModel:
    """One model of the list: its name, and its values of the settings `model` and `mmproj`."""

    name: str
    model: str
    mmproj: str = ""

    def folder(self, settings: Settings) -> Path:
        """Return the runtime folder of this model's engine, below the server's."""
        return settings.runtime_path / hashlib.sha256(self.name.encode()).hexdigest()[:8]

    def changes(self, settings: Settings) -> dict[str, str]:
        """Return the settings in which this model's engine differs from the server."""
        changes = {"models": "", "model": self.model, "alias": self.name, "runtime_dir": str(self.folder(settings))}
        return changes | ({"mmproj": self.mmproj} if self.mmproj else {})

    def environ(self, settings: Settings) -> dict[str, str]:
        """Return the variables by which this model's engine gets its settings."""
        return {ENV_PREFIX + name.upper(): value for name, value in self.changes(settings).items()}

    def settings(self, settings: Settings) -> Settings:
        """Return the settings of this model's engine."""
        return settings.model_copy(update=self.changes(settings))


def list_models(settings: Settings) -> dict[str, ListedModel]:
    """Return the models of the setting by their names, in their order. Raise ConfigError for equal names, or none at all."""
    items = split_commas(settings.models)
    if len(items) == 1 and (folder := Path(items[0]).expanduser()).is_dir():
        found = list(_in_folder(folder))
        if not found:
            raise ConfigError(f"models: there is no GGUF file in the folder {folder}")
    elif len(items) == 1 and not (_is_file_name(items[0]) or folder.exists()):
        raise ConfigError(f"models: there is no folder or file {folder}")
    else:
        found = [_item(item) for item in items]
    models: dict[str, ListedModel] = {}
    for each in found:
        if (other := models.setdefault(each.name, each)) is not each:
            raise ConfigError(
                f"models: {other.model} and {each.model} have the same name, {each.name}; give one another with NAME=PATH"
            )
    return models


def _is_file_name(item: str) -> bool:
    """Whether an item cannot mean a folder, though there is nothing at its path."""
    return "=" in item or ":" in item or item.lower().endswith(".gguf")


def _item(item: str) -> ListedModel:
    name, separator, path = item.partition("=")
    if separator and name and "/" not in name:
        return ListedModel(name.strip(), path.strip())
    if Path(item).expanduser().is_dir():
        raise ConfigError(f"models: {item} is a folder; a list has files, and a folder stands alone")
    return ListedModel(_stem(Path(item)), item)


def _in_folder(folder: Path) -> Iterable[ListedModel]:
    """Yield a folder's models in the order of their names.

    A file is a model, unless it is a projector or a later part of a split model. A folder in it is one model, with its
    parts and its projector.
    """
    try:
        entries = sorted(
            folder.iterdir(), key=lambda path: _stem(path).lower() if path.is_file() else path.name.lower()
        )
        for entry in entries:
            if entry.is_dir():
                models, projectors = _files(entry)
                if models:
                    projector = str(projectors[0]) if projectors else ""
                    yield ListedModel(_plain(entry.name), str(models[0]), projector)
            elif entry in _files(folder, [entry])[0]:
                yield ListedModel(_stem(entry), str(entry))
    except OSError as error:
        raise ConfigError(f"models: cannot read {error.filename or folder}: {error.strerror}") from None


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
        if settings.model in (name, each.model) or _same(settings.model, each.model):
            return name
    raise ConfigError(f"model: {settings.model} is not among models, which has {', '.join(models)}")


def first_model(settings: Settings) -> ListedModel | None:
    """Return the model that is loaded at the start; None if the server has one model. Raise the errors of the list."""
    if not settings.models:
        return None
    models = list_models(settings)
    return models[default_model(settings, models)]


def _same(one: str, other: str) -> bool:
    return Path(one).expanduser().resolve() == Path(other).expanduser().resolve()


def resolve(given: str, names: Iterable[str]) -> str | None:
    """Return the model that a request's name means: case and Ollama's tag :latest do not matter. None: there is none."""
    names = list(names)
    if given in names:
        return given
    wanted = given.lower().removesuffix(LATEST)
    return next((name for name in names if name.lower().removesuffix(LATEST) == wanted), None)
