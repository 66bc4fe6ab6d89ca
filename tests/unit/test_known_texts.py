"""Long texts are tokenized once: their tokens are found again by their characters, and are those of the whole text."""

from __future__ import annotations

import logging
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srb.engine import known_texts as module
from srb.engine.cuts import BYTE_LETTERS, Cuts, spellings
from srb.engine.fake import BOS, EOS, FakeModel
from srb.engine.known_texts import KnownTexts, RunTooLong
from srb.errors import Cancelled
from srb.progress import FairSemaphore, work_while

BLOCK = 32
WORDS = ("the", "old", "king", "said", "that", "a", "small", "boat", "was", "lost", "near", "grey", "garden", "and")
TEXT = " " + " ".join(random.Random(1).choices(WORDS, k=300))


class Counting(FakeModel):
    """A FakeModel that counts the characters that it tokenizes, and the cuts that it looks for."""

    characters = cuts = 0

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        self.characters += len(text)
        return super().tokenize(text, add_special, parse_special)

    def find_cut(self, text: str, start: int) -> int:
        self.cuts += 1
        return super().find_cut(text, start)


@pytest.fixture
def model() -> Counting:
    return Counting()


@pytest.fixture
def texts(model: Counting) -> KnownTexts:
    return KnownTexts(model, block=BLOCK)


def newly_read(texts: KnownTexts, model: Counting, text: str) -> int:
    """Return how many characters are tokenized for a text, whose tokens are checked."""
    before = model.characters
    tokens = texts.tokenize(text, True, True).tolist()
    count = model.characters - before
    assert tokens == FakeModel().tokenize(text, True, True)
    return count


@given(
    st.lists(
        st.sampled_from([" the", " a", "é", " é", ",", " ", "\n", " x1", "日", " old", "，日", "。"]), max_size=200
    )
)
def test_a_text_has_the_tokens_of_the_whole_text_before_and_after_it_is_known(words: list[str]) -> None:
    texts, text = KnownTexts(FakeModel(), block=8), "".join(words)
    whole = FakeModel().tokenize(text, True, True)
    assert texts.tokenize(text, True, True).tolist() == whole
    assert texts.tokenize(text, True, True).tolist() == whole
    assert texts.tokenize(text, False, True).tolist() == whole[1:]


def test_of_a_known_text_no_more_than_its_end_is_tokenized(texts: KnownTexts, model: Counting) -> None:
    assert newly_read(texts, model, TEXT) >= len(TEXT)
    assert newly_read(texts, model, TEXT) < 2 * BLOCK
    assert newly_read(texts, model, TEXT + " and then she left" * 5) < 2 * BLOCK + 120


def test_a_change_in_the_middle_leaves_the_blocks_before_it_known(texts: KnownTexts, model: Counting) -> None:
    newly_read(texts, model, TEXT)
    middle = len(TEXT) // 2
    assert newly_read(texts, model, TEXT[:middle] + "!" + TEXT[middle:]) < 0.8 * len(TEXT)


def test_texts_with_the_same_beginning_share_its_blocks(texts: KnownTexts, model: Counting) -> None:
    newly_read(texts, model, TEXT)
    for word in ("fox", "girl", "letter"):
        assert newly_read(texts, model, f"{TEXT} {word}") < 2 * BLOCK + 10


def test_a_text_is_found_as_quickly_beside_many_others(texts: KnownTexts, model: Counting) -> None:
    newly_read(texts, model, TEXT)
    before = model.cuts
    read = newly_read(texts, model, TEXT)
    looked = model.cuts - before
    for number in range(50):
        texts.tokenize(f" {number}{TEXT}", True, True).tolist()
    before = model.cuts
    assert newly_read(texts, model, TEXT) == read
    assert model.cuts - before == looked


def test_the_blocks_used_last_are_kept(model: Counting) -> None:
    texts = KnownTexts(model, max_blocks=2 * len(TEXT) // BLOCK, block=BLOCK)
    newly_read(texts, model, TEXT)
    newly_read(texts, model, TEXT.upper())
    assert newly_read(texts, model, TEXT) < 2 * BLOCK
    newly_read(texts, model, TEXT.title())
    assert newly_read(texts, model, TEXT) < 2 * BLOCK
    assert newly_read(texts, model, TEXT.upper()) > len(TEXT) // 2


def test_a_text_without_cuts_is_tokenized_whole_and_not_kept(texts: KnownTexts, model: Counting) -> None:
    for _ in range(2):
        assert newly_read(texts, model, "日" * 1000) == 1000


def test_special_tokens_are_those_that_each_call_asks_for(texts: KnownTexts) -> None:
    whole = texts.tokenize(TEXT, False, True).tolist()
    assert texts.tokenize(TEXT, True, True).tolist() == [BOS, *whole]
    assert texts.tokenize(TEXT, False, False).tolist() == whole


def test_where_the_vocabulary_adds_an_end_texts_are_tokenized_whole(
    texts: KnownTexts, model: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "tokenize", lambda text, *_: [BOS, *FakeModel().tokenize(text, False, True), EOS])
    for _ in range(2):
        assert texts.tokenize(TEXT, True, True).tolist() == [BOS, *FakeModel().tokenize(TEXT, False, True), EOS]


def test_a_cut_within_a_token_is_noticed_and_never_trusted_again(
    texts: KnownTexts, model: Counting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(model, "find_cut", lambda text, start: text.find("king", start))
    with caplog.at_level(logging.ERROR):
        assert newly_read(texts, model, TEXT) > len(TEXT)
        assert newly_read(texts, model, TEXT) == len(TEXT)
    assert "from now on, all texts are tokenized whole" in caplog.text


def test_a_cut_is_before_a_single_space_between_two_letters() -> None:
    cuts = Cuts({})
    found = [at for at in range(30) if cuts.find("I saw 3 ships, é ü\nx  y and\tso", at) == at]
    assert found == [1, 16, 23]


def test_a_cut_is_before_a_single_mark_between_two_letters() -> None:
    cuts, text = Cuts({}), "他走了，我也。「好」！吗？3、x；、我：我"
    assert [at for at in range(len(text)) if cuts.find(text, at) == at] == [3, text.index("：")]


def test_no_cut_is_after_a_letter_that_a_token_joins_to_the_sign() -> None:
    assert Cuts({" ": {"f"}}).find("half a loaf", 0) == 6
    last_byte = BYTE_LETTERS["é".encode()[-1]]
    assert Cuts({" ": {last_byte}}).find("café au lait", 0) == 7
    assert Cuts({"，": {"了"}}).find("走了，我。你了。我", 0) == 4


def test_a_token_may_have_the_first_bytes_of_a_mark() -> None:
    first, second, third = (BYTE_LETTERS[byte] for byte in "。".encode())
    joins = re.compile(f"x(?={'|'.join(spellings('。'))})")
    assert all(joins.search(f"x{part}") for part in ("。", first, first + second, first + second + third + "y"))
    assert not any(joins.search(f"x{part}") for part in (first + "y", first + second + "y", second))


def test_of_a_known_text_without_spaces_no_more_than_its_end_is_tokenized(texts: KnownTexts, model: Counting) -> None:
    text = "".join(random.Random(1).choices(["他走了，", "我也走了。", "日本語の", "文章、", "故事"], k=600))
    assert newly_read(texts, model, text) >= len(text)
    assert newly_read(texts, model, text) < 3 * BLOCK
    assert newly_read(texts, model, text + "他走了，她也走了。") < 3 * BLOCK + 20


# Long texts ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def piece(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let pieces be of a few blocks."""
    monkeypatch.setattr(module, "PIECE", 3 * BLOCK)
    return 3 * BLOCK


class Counted(FairSemaphore):
    """FairSemaphore that are counted."""

    taken = 0

    def __enter__(self) -> None:
        super().__enter__()
        self.taken += 1


def counted(texts: KnownTexts) -> tuple[Counted, Counted]:
    texts._pieces, texts._runs = Counted(1), Counted(1)
    return texts._pieces, texts._runs


UNBROKEN = "x" * 9 * BLOCK


@pytest.mark.parametrize("text", [TEXT, TEXT + UNBROKEN + TEXT, UNBROKEN + TEXT, TEXT + UNBROKEN, UNBROKEN, "日" * 500])
def test_a_text_in_pieces_has_the_tokens_of_the_whole_text(
    texts: KnownTexts, model: Counting, piece: int, text: str
) -> None:
    pieces, runs = counted(texts)
    newly_read(texts, model, text)
    assert runs.taken == ("x" * BLOCK in text or "日" in text)
    assert pieces.taken >= (len(text) - len(UNBROKEN)) // (piece + 2 * BLOCK) - 2


def test_a_text_of_one_piece_waits_for_no_turn(texts: KnownTexts, model: Counting, piece: int) -> None:
    pieces, runs = counted(texts)
    with pieces, runs:
        newly_read(texts, model, TEXT[:piece])
    newly_read(texts, model, TEXT)
    assert pieces.taken > 1 + len(TEXT) // piece // 2
    assert runs.taken == 1


@pytest.mark.usefixtures("piece")
def test_the_rest_of_a_text_that_nobody_waits_for_is_left_out(texts: KnownTexts, model: Counting) -> None:
    work_while(lambda: model.characters < len(TEXT) // 2)
    try:
        with pytest.raises(Cancelled):
            texts.tokenize(TEXT, True, True)
        assert model.characters < 0.8 * len(TEXT)
    finally:
        work_while(lambda: True)


@pytest.mark.usefixtures("piece")
def test_the_number_of_tokens_is_checked_after_each_piece(texts: KnownTexts, model: Counting) -> None:
    counts: list[int] = []

    def check(count: int) -> None:
        counts.append(count)
        if count > 100:
            raise ValueError

    with pytest.raises(ValueError):
        texts.tokenize(TEXT, True, True, check)
    assert counts == sorted(counts)
    assert len(counts) > 1
    assert model.characters < len(TEXT)


@pytest.mark.parametrize("before", ["", TEXT])
def test_a_long_text_without_a_cut_is_refused_unread(
    texts: KnownTexts, model: Counting, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    monkeypatch.setattr(module, "MAX_RUN", len(UNBROKEN))
    newly_read(texts, model, UNBROKEN)
    characters = model.characters
    with pytest.raises(RunTooLong, match="characters without a space between two words; at most"):
        texts.tokenize(before + 2 * UNBROKEN, True, True)
    assert model.characters - characters < 1.3 * len(before) + 1
