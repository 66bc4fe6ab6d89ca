"""What can be said of a model's file without loading it."""

from __future__ import annotations

from srb.errors import ModelLoadFailed
from srb.settings import Settings

FAKE_MODEL = "fake:"  # a `model` setting that serves FakeModel, for tests of everything around the engine
_MAGIC = b"GGUF"


def check_model_file(settings: Settings) -> None:
    """Raise ModelLoadFailed where the model's file cannot be a GGUF file: cheap, and before anything is started."""
    if settings.model == FAKE_MODEL:
        return
    path = settings.model_path
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise ModelLoadFailed(f"cannot read the model {path}: {error.strerror}") from None
    if magic != _MAGIC:
        raise ModelLoadFailed(f"the model {path} is not a GGUF file")
