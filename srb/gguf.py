"""Facts about the files of a model and its adapters, read without loading them."""

from __future__ import annotations

import re
from pathlib import Path

from srb.errors import ConfigError, ModelLoadFailed
from srb.named_models import named_model_at
from srb.settings import Settings

FAKE_MODEL = "fake:"  # the `model` setting that serves FakeModel, for tests; "fake:25" decodes 25 times a second
_MAGIC = b"GGUF"
_PART = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")
_LITERAL = str.maketrans({sign: f"[{sign}]" for sign in "[?*"})  # for glob


def is_fake(settings: Settings) -> bool:
    """Whether the settings ask for FakeModel."""
    name, _, pace = settings.model.partition(":")
    return f"{name}:" == FAKE_MODEL and (not pace or pace.isdecimal())


def check_model_file(settings: Settings) -> None:
    """Raise ModelLoadFailed if the file cannot be read or is not a GGUF file. Cheap: reads four bytes."""
    if is_fake(settings):
        return
    path = settings.model_path
    try:
        is_gguf = _is_gguf(path)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and (named := named_model_at(path)):
            raise ModelLoadFailed(
                f"the model {named.name} is not on this machine; `srb models fetch {named.name}` fetches it"
            ) from None
        raise ModelLoadFailed(f"cannot read the model {path}: {error.strerror}") from None
    if not is_gguf:
        raise ModelLoadFailed(f"the model {path} is not a GGUF file")


def check_adapter_files(settings: Settings) -> None:
    """Raise ConfigError where the file of a LoRA adapter, the projector or the draft model cannot be a GGUF file.

    Whether it fits the model shows at loading.
    """
    if is_fake(settings):
        return
    others = [("mmproj", settings.mmproj_path)] if settings.mmproj else []
    others += [("spec_draft_model", settings.draft_model_path)] if settings.has_draft_model else []
    for name, path in [*(("lora", path) for path, _ in settings.adapters), *others]:
        try:
            is_gguf = _is_gguf(path)
        except OSError as error:
            raise ConfigError(f"{name}: cannot read {path}: {error.strerror}") from None
        if not is_gguf:
            raise ConfigError(f"{name}: {path} is not a GGUF file")


def model_files(path: Path) -> list[Path]:
    """Return the model's files: the one at `path` and, if it is a part of a split model, all parts that exist."""
    part = _PART.search(path.name)
    if part is None:
        return [path]
    stem = path.name[: part.start()]
    return sorted(path.parent.glob(f"{stem.translate(_LITERAL)}-?????-of-{part[1]}.gguf"))


def _is_gguf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC
