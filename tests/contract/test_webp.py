"""Pictures in WebP are read as what they show, where Pillow is installed, and are refused in words where it is not."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srb.engine.engine import Engine, EngineOptions
from srb.engine.llama import media, webp
from srb.engine.llama.model import LlamaModel
from srb.engine.media import MediaChunk
from srb.errors import InvalidRequest
from srb.wire.commands import BranchSpec, Generate
from tests.media import b64, png, wav
from tests.models.random_gguf import TINY
from tests.models.random_projectors import write_projector

pytest.importorskip("llama_cpp.mtmd_cpp", reason="llama-cpp-python was built without mtmd")
Image = pytest.importorskip("PIL.Image", reason="the extra `images` is not installed")

NOISE = png(48, 32, seed=5)


def in_webp(data: bytes = NOISE, mode: str = "RGB", **options: Any) -> bytes:
    """Return a picture again, in WebP."""
    out = BytesIO()
    Image.open(BytesIO(data)).convert(mode).save(out, "WEBP", **options)
    return out.getvalue()


def pixels(data: bytes) -> Any:
    return np.asarray(Image.open(BytesIO(data)).convert("RGB"))


FORMS = {
    "lossless": in_webp(lossless=True),
    "lossy": in_webp(quality=90),
    "with transparency": in_webp(mode="RGBA", quality=90),
    "moving": in_webp(save_all=True, append_images=[Image.new("RGB", (48, 32))], lossless=True),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_picture_in_webp_becomes_a_png_of_its_pixels(form: str) -> None:
    data = FORMS[form]
    made = webp.readable(data)
    assert made.startswith(b"\x89PNG")
    np.testing.assert_array_equal(pixels(made), pixels(data))
    assert form in ("lossy", "with transparency") or (pixels(made) == pixels(NOISE)).all()


def test_other_files_stay_as_they_are() -> None:
    for data in (NOISE, wav(), b""):
        assert webp.readable(data) is data


def test_a_damaged_picture_is_refused_by_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = FORMS["lossless"]
    with pytest.raises(ValueError, match="is damaged: its pixels cannot be read"):
        webp.readable(whole[: len(whole) // 2])
    monkeypatch.setattr(webp, "MAX_SECONDS", 0)
    with pytest.raises(ValueError, match="was not converted within 0 seconds"):
        webp.readable(whole)


def test_a_text_about_a_picture_in_webp_is_that_about_its_png(
    load: Callable[..., LlamaModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    projector = write_projector(tmp_path / "mmproj.gguf", TINY)
    model = load("llama", mmproj=str(projector))

    def vectors(data: bytes) -> list[Any]:
        assert model.encoder is not None
        return [part.vectors for part in model.encoder.encode(data) if isinstance(part, MediaChunk)]

    def ask(model: LlamaModel, data: bytes) -> None:
        engine = Engine(model, EngineOptions(max_queue=9), clock=iter(range(10**6)).__next__)
        engine.prepare(Generate("r", ("See", -1), (BranchSpec(0, 1),), media=(b64(data),), media_field="images"))

    for one, other in zip(vectors(FORMS["lossless"]), vectors(NOISE), strict=True):
        np.testing.assert_array_equal(one, other)
    ask(model, FORMS["lossy"])
    whole = FORMS["lossless"]
    with pytest.raises(InvalidRequest, match=r"^Field 'images': is damaged"):
        ask(model, whole[: len(whole) // 2])
    monkeypatch.setattr(media, "has_pillow", lambda: False)
    with pytest.raises(
        InvalidRequest, match=r"^Field 'images': is a picture in WebP, which is not supported; it should be"
    ):
        ask(load("llama", mmproj=str(projector)), whole)
