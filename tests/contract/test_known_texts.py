"""Texts that are cut before llama.cpp tokenizes them have the tokens of the whole text, in every kind of vocabulary."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from srb.config.named_models import BUNDLED_MODEL
from srb.config.settings import Settings
from srb.engine.known_texts import KnownTexts
from srb.engine.llama.model import LlamaModel
from tests import vocabularies

# One of llama.cpp's names for each of its pre-tokenizers that generate.
PRE_TOKENIZERS = [
    *("default", "llama-bpe", "jais-2", "deepseek-llm", "deepseek-v3", "youtu", "deepseek-coder", "falcon"),
    *("starcoder", "gpt-2", "qwen2", "qwen35", "bloom", "chatglm-bpe", "viking", "tekken", "chameleon", "gpt-4o"),
    *("kimi-k2", "superbpe", "bailingmoe", "seed-coder", "grok-2", "afmoe", "exaone-moe", "minicpm5"),
]
PARTS = [
    *(
        " ",
        "  ",
        "\n",
        "\n\n",
        "\t",
        "\r\n",
        ".",
        ", ",
        "'s",
        "'t ",
        "3",
        " 3.14 ",
        "12345",
        "e\u0301",
        "日本語",
        "한국 ",
        "😀",
        "½ ",
    ),
    *(
        "Привет мир ",
        "x y z ",
        "half the ",
        "of the ",
        "note ",
        "note a",
        "<|end|>",
        "<|end|> a",
        "<s> the",
        "▁",
        "Ġ",
        "Ċ x",
    ),
    *(f"{word} " for word in vocabularies.WORDS),
    *(
        "日本語、",
        "的故事。",
        "你好，",
        "他说：",
        "走了！",
        "是吗？",
        "；",
        "「",
        "」",
        "……",
        "。\n",
        "好，的",
        "了",
        "的",
        "カタカナー。",
    ),
]


def check(model: LlamaModel, count: int, seed: int = 0) -> None:
    """Compare `count` random texts, each unknown and known, and require that some of them was cut."""
    pick = random.Random(seed)
    texts = KnownTexts(model, block=8)
    has_cuts = False
    for _ in range(count):
        text = "".join(pick.choices(PARTS, k=pick.randint(0, 60)))
        has_cuts = has_cuts or model.find_cut(text, 8) > 0
        for add_special, parse_special in ((True, True), (False, False)):
            whole = model.tokenize(text, add_special, parse_special)
            assert texts.tokenize(text, add_special, parse_special).tolist() == whole, repr(text)
            assert texts.tokenize(text, add_special, parse_special).tolist() == whole, repr(text)
        end = pick.randint(0, len(text))
        if (cut := texts.last_cut(text, end)) > 0:
            assert cut < end
            for other in (text, text[:end] + "".join(pick.choices(PARTS, k=9))):
                behind = texts.behind(other[cut - 1 :], True)
                assert behind is not None
                whole = model.tokenize(other, True, True)
                assert (texts.tokenize(text[:cut], True, True) + behind).tolist() == whole, repr(other)
    assert has_cuts
    assert texts._is_trusted


def test_the_storyteller_reads_a_text_in_parts_as_it_reads_the_whole() -> None:
    check(vocabularies.load(Settings().model_path), 30)


@pytest.mark.parametrize("prefixes", [True, False])
def test_spm_reads_a_text_in_parts_as_it_reads_the_whole(tmp_path: Path, prefixes: bool) -> None:
    model = vocabularies.load(vocabularies.write_spm(tmp_path / "spm.gguf", prefixes))
    check(model, 30)


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
def test_bpe_reads_a_text_in_parts_as_it_reads_the_whole(tmp_path: Path, pre: str) -> None:
    check(vocabularies.load(vocabularies.write_bpe(tmp_path / "bpe.gguf", pre)), 8)


@pytest.mark.parametrize("kind", ["ugm", "wpm"])
def test_a_text_is_never_cut_where_tokens_may_depend_on_all_of_it(tmp_path: Path, kind: str) -> None:
    model = vocabularies.load(getattr(vocabularies, f"write_{kind}")(tmp_path / "vocabulary.gguf"))
    text = "the old king said " * 20
    assert model.find_cut(text, 0) == -1
    assert KnownTexts(model, block=8).tokenize(text, True, True).tolist() == model.tokenize(text, True, True)


@pytest.mark.parametrize("pre", ["spm", "default", "llama-bpe", "qwen2", "deepseek-v3", "superbpe", "bloom"])
def test_a_text_without_spaces_is_cut_before_its_marks(tmp_path: Path, pre: str) -> None:
    path = tmp_path / "vocabulary.gguf"
    model = vocabularies.load(vocabularies.write_spm(path) if pre == "spm" else vocabularies.write_bpe(path, pre))
    assert model.find_cut("他走了，我也走了。", 0) == 3
    assert model.find_cut("他说好，我也走了。你呢", 0) == 8, "a token joins 好 and a comma"
    pick, texts = random.Random(1), KnownTexts(model, block=8)
    for _ in range(20):
        text = "".join(pick.choices(["他走了", "故事", "好", "ひらがな", "，", "。", "、", "！", "？」", "\n"], k=200))
        whole = model.tokenize(text, True, True)
        assert [texts.tokenize(text, True, True).tolist() for _ in range(2)] == [whole] * 2, text
    assert texts._is_trusted


def test_nothing_is_cut_after_a_letter_that_a_token_joins_to_a_space(tmp_path: Path) -> None:
    for path in (vocabularies.write_spm(tmp_path / "spm.gguf"), vocabularies.write_bpe(tmp_path / "bpe.gguf", "gpt-2")):
        model = vocabularies.load(path)
        assert model.find_cut("half or boat", 0) == 7
        assert model.find_cut("note or boat", 0) == 7, "a special token ends with the letter e"


@pytest.mark.parametrize("kind", ["storyteller", "spm", "ugm", "bpe"])
def test_a_vocabulary_lacks_the_characters_that_it_knows_only_as_bytes_or_not_at_all(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "vocabulary.gguf"
    model = vocabularies.load(
        {
            "storyteller": lambda: BUNDLED_MODEL,
            "spm": lambda: vocabularies.write_spm(path),
            "ugm": lambda: vocabularies.write_ugm(path),
            "bpe": lambda: vocabularies.write_bpe(path, "gpt-2"),
        }[kind]()
    )
    assert all(map(model._lacks, "“”‘’—…"))
    known = {"spm": "好，", "bpe": "了。"}.get(kind, "")  # with tokens of their own, or within one
    assert not any(map(model._lacks, known))


@pytest.mark.parametrize("unit", ["<|end|> a", "<|user|><|end|>\n", "the<|end|>the old <|user|>"])
@pytest.mark.parametrize(
    "write", [vocabularies.write_spm, partial(vocabularies.write_bpe, pre="llama-bpe")], ids=["spm", "bpe"]
)
def test_a_text_of_special_tokens_takes_time_that_grows_with_it(
    tmp_path: Path, write: Callable[[Path], Path], unit: str
) -> None:
    """Four megabytes: half an hour where time grows with the square of the special tokens, which pytest's limit ends."""
    model = vocabularies.load(write(tmp_path / "vocabulary.gguf"))
    two, three = (model.tokenize(unit * count, False, True) for count in (2, 3))
    many = 2**22 // len(unit)
    assert model.tokenize(unit * many, False, True) == two + three[len(two) :] * (many - 2)
