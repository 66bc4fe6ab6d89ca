"""Models that the contract is tested on: the fake, and tiny random GGUFs of every kind of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from srb.config.settings import Settings
from srb.engine.fake import FakeModel
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Model
from tests.contract.writers import N_CTX as LONG_N_CTX
from tests.models.random_gguf import TINY, WRITERS

N_CTX = 256
SMALL_WINDOWS = "gemma3, small windows"  # whose cache holds the newest windows alone
WINDOWS_AND_STATES = "lfm2, windows"  # windows of 8 tokens here
BESIDE_STATES = "lfm2, windows of 32"
_WRITTEN = {SMALL_WINDOWS: "gemma3", BESIDE_STATES: WINDOWS_AND_STATES}
# Whose texts are computed alike in prompts and in steps, but for the order of sums.
ALIKE = ["fake", "fake, with states", *WRITERS, SMALL_WINDOWS]


@pytest.fixture(scope="session")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that writes a tiny GGUF of an architecture, once, and returns its path."""
    folder = tmp_path_factory.mktemp("gguf")

    def write(arch: str) -> Path:
        path = folder / f"{arch}.gguf"
        shape = replace(TINY, window=8) if arch in (SMALL_WINDOWS, WINDOWS_AND_STATES) else TINY
        return path if path.exists() else WRITERS[_WRITTEN.get(arch, arch)](path, shape)

    return write


@pytest.fixture(params=ALIKE)
def model_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


class Lent:
    """Models that tests borrow one after another: each is loaded once for its file and settings, and empty when lent.

    Those that were not borrowed for longest are closed when there are more than `most`, of 2 to 10 MB each.
    """

    def __init__(self, most: int = 100) -> None:
        self.loads = 0
        self._most = most
        self._idle: dict[str, list[LlamaModel]] = {}  # by settings, in the order of their return
        self._as_loaded: dict[int, dict[str, Any]] = {}  # the attributes of each model, by its id

    def borrow(self, settings: Settings) -> LlamaModel:
        idle = self._idle.pop(settings.model_dump_json(), [])
        if idle:
            model = idle.pop()
            if idle:
                self._idle[settings.model_dump_json()] = idle
            return model
        model = LlamaModel.load(settings)
        self.loads += 1
        self._as_loaded[id(model)] = dict(vars(model))
        return model

    def give_back(self, model: LlamaModel) -> None:
        """Take a model back as it was loaded: no text, no rows, no attribute that a test has set."""
        if model._context is None:  # the test has closed it
            self._as_loaded.pop(id(model))
            return
        model.clear()
        model._rows.follow([])
        as_loaded = self._as_loaded[id(model)]
        for name in vars(model).keys() - as_loaded.keys():
            if not isinstance(getattr(LlamaModel, name, None), cached_property):
                delattr(model, name)  # in the place of a method
        for name, value in as_loaded.items():
            if name not in _FOLLOWS_THE_CONTEXT:
                setattr(model, name, value)
        key = model._settings.model_dump_json()
        self._idle[key] = [*self._idle.pop(key, []), model]
        if sum(map(len, self._idle.values())) > self._most:
            oldest = next(iter(self._idle))
            for each in self._idle.pop(oldest):
                self._close(each)

    def close(self) -> None:
        for models in self._idle.values():
            for model in models:
                self._close(model)
        self._idle.clear()

    def _close(self, model: LlamaModel) -> None:
        del self._as_loaded[id(model)]
        model.close()


_FOLLOWS_THE_CONTEXT = {"_lora", "_edits"}  # scales that the context has, and edits that clear() has dropped


@pytest.fixture(scope="session")
def lent() -> Iterator[Lent]:
    models = Lent()
    yield models
    models.close()


@pytest.fixture
def model(model_name: str, gguf: Callable[[str], Path], lent: Lent) -> Iterator[Model]:
    if model_name.startswith("fake"):
        fake = FakeModel(n_ctx=N_CTX, n_seq_max=16, n_batch=64, has_states="states" in model_name)
        yield fake
        fake.close()
        return
    given: dict[str, Any] = {"n_ctx": N_CTX, "swa_full": "on"}
    if model_name in ("glm4moe", "step35"):
        given |= {"spec_type": "mtp"}  # their heads follow whatever the sequences do
    if "gemma" in model_name:  # f16 cells would round equal texts apart; flash attention has no others
        given |= {"flash_attn": "off", "cache_type_k": "f32", "cache_type_v": "f32"}
    if model_name in (SMALL_WINDOWS, WINDOWS_AND_STATES):
        given |= {"n_ctx": 2 * N_CTX, "swa_full": "off"}
    path = str(gguf(model_name))
    borrowed = lent.borrow(Settings(model=path, n_batch=64, n_ubatch=32, n_seq_max=16, threads=1, **given))
    yield borrowed
    assert borrowed.head is None or borrowed.head.lag(0, 0) is not None, "the head could not follow"
    lent.give_back(borrowed)


@pytest.fixture
def llama(gguf: Callable[[str], Path], lent: Lent) -> Iterator[LlamaModel]:
    borrowed = lent.borrow(Settings(model=str(gguf("llama")), n_ctx=N_CTX, n_batch=64, n_seq_max=16, threads=1))
    yield borrowed
    lent.give_back(borrowed)


@pytest.fixture
def load(gguf: Callable[[str], Path], lent: Lent, tmp_path: Path) -> Iterator[Callable[..., LlamaModel]]:
    """Return a function that loads a model whose equal texts have equal logits but for the order of sums.

    It is one that another test had with these settings, if there is one: a test of the loading itself asks for it `anew`.
    """
    own: list[LlamaModel] = []
    borrowed: list[LlamaModel] = []

    def one(arch: str = "gemma3", *, anew: bool = False, **changes: Any) -> LlamaModel:
        given: dict[str, Any] = {
            "model": str(gguf(arch)),
            "n_ctx": LONG_N_CTX,
            "n_batch": 64,
            "n_ubatch": 64,
            "threads": 1,
        }
        given |= {"cache_type_k": "f32", "cache_type_v": "f32", "flash_attn": "off", "rope_scaling": "none"}
        settings = Settings(**(given | changes))
        if anew or str(tmp_path) in settings.model_dump_json():  # a file that no other test has
            own.append(LlamaModel.load(settings))
            return own[-1]
        borrowed.append(lent.borrow(settings))
        return borrowed[-1]

    yield one
    for model in own:
        model.close()
    for model in borrowed:
        lent.give_back(model)
