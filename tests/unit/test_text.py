"""What a branch's text promises: whole characters, nothing lost, stop strings never shown."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from srb.engine.boundaries import finder
from srb.engine.text import BranchText, Emission


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    """Cut `data` into pieces at `cuts`, as an unlucky tokenizer would."""
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def run(pieces: list[bytes], stops: list[str] = ()) -> tuple[str, list[int], str]:  # type: ignore[assignment]
    """Push all pieces as tokens 0, 1, …; return the shown text, the shown tokens, and the stop string found."""
    text = BranchText(stops)
    emissions: list[Emission] = []
    for token, piece in enumerate(pieces):
        emissions.append(text.push(token, piece))
        if emissions[-1].stop:
            break
    else:
        emissions.append(text.finish())
    shown = "".join(emission.text for emission in emissions)
    return shown, [token for emission in emissions for token in emission.tokens], emissions[-1].stop


@given(st.text(), st.lists(st.integers(min_value=0)))
def test_any_text_cut_anywhere_comes_out_whole(text: str, cuts: list[int]) -> None:
    pieces = pieces_of(text.encode(), cuts)
    shown, tokens, _ = run(pieces)
    assert shown == text
    assert tokens == list(range(len(pieces)))


@given(st.binary(), st.lists(st.integers(min_value=0)))
def test_invalid_bytes_become_replacement_characters_and_nothing_is_lost(data: bytes, cuts: list[int]) -> None:
    shown, tokens, _ = run(pieces_of(data, cuts))
    assert shown == data.decode("utf-8", "replace")
    assert tokens == list(range(len(pieces_of(data, cuts))))


def test_half_a_character_is_never_shown() -> None:
    text = BranchText()
    snowman = "☃".encode()
    assert text.push(0, snowman[:1]) == Emission()
    assert text.push(1, snowman[1:2]) == Emission()
    assert text.push(2, snowman[2:]) == Emission("☃", [0, 1, 2])


def test_a_truncated_character_at_the_end_is_one_replacement_character() -> None:
    assert run(["a☃".encode()[:3]]) == ("a\ufffd", [0], "")


@given(st.text(alphabet="abc☃", max_size=40), st.lists(st.integers(min_value=0)), st.lists(st.text("abc☃", min_size=1)))
def test_text_ends_before_the_stop_string_that_is_complete_first(text: str, cuts: list[int], stops: list[str]) -> None:
    shown, _, found = run(pieces_of(text.encode(), cuts), stops)
    ends = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    if not ends:
        assert (shown, found) == (text, "")
        return
    # A token may complete two stop strings at once; then any text up to a stop string that token completes is right.
    assert found in stops
    assert shown + found == text[: len(shown + found)]
    assert len(shown) <= max(at for _, at in ends)
    assert not any(stop in shown for stop in stops)


def test_a_stop_string_split_over_tokens_never_leaks() -> None:
    text = BranchText(["\n\nEND"])
    shown = ""
    for token, piece in enumerate([b"Once", b".\n", b"\nE", b"N"]):
        shown += text.push(token, piece).text
        assert shown in ("Once", "Once.")
    # Token 1 belongs to the text with its first half, ".".
    assert text.push(4, b"D and more") == Emission("", [1], stop="\n\nEND")


def test_what_only_began_like_a_stop_string_is_shown_when_it_turns_out_otherwise() -> None:
    text = BranchText(["STOP"])
    assert text.push(0, b"ST") == Emission()
    assert text.push(1, b"AR") == Emission("STAR", [0, 1])
    assert text.push(2, b"STO") == Emission()
    assert text.finish() == Emission("STO", [2])


def test_logprob_tokens_concatenate_to_the_text_before_the_stop_string() -> None:
    text = BranchText(["END"])
    first = text.push(0, b"the E", {"token": "the E", "bytes": []})
    last = text.push(1, b"ND", {"token": "ND", "bytes": []})
    assert first.text + last.text == "the "
    assert [prob["token"] for prob in first.probs + last.probs] == ["the "]
    assert last.probs[0]["bytes"] == list(b"the ")


@given(st.binary(), st.lists(st.integers(min_value=0)), st.lists(st.text("ab☃", min_size=1, max_size=2)))
@example("ab☃".encode(), [4], ["b☃"])
def test_logprob_tokens_concatenate_to_any_text_wherever_it_is_cut(
    data: bytes, cuts: list[int], stops: list[str]
) -> None:
    branch = BranchText(stops)
    shown: list[Any] = []
    for token, piece in enumerate(pieces_of(data, cuts)):
        shown.append(branch.push(token, piece, {"token": piece.decode("utf-8", "replace"), "bytes": list(piece)}))
        if shown[-1].stop:
            break
    else:
        shown.append(branch.finish())
    text = "".join(emission.text for emission in shown)
    assert "".join(prob["token"] for emission in shown for prob in emission.probs) == text


def test_tokens_without_text_pass_through() -> None:
    assert run([b"a", b"", b"b"]) == ("ab", [0, 1, 2], "")


def outdented(pieces: list[bytes], n_indent: int, stops: tuple[str, ...] = ()) -> tuple[str, bool]:
    """Return what is shown of `pieces`, and whether a line that is indented too little ended it."""
    text, shown = BranchText(stops, n_indent), ""
    for token, piece in enumerate(pieces):
        emission = text.push(token, piece)
        shown += emission.text
        if emission.is_outdented:
            assert not text.finish()
            return shown, True
    return shown + text.finish().text, False


def test_a_line_that_is_indented_too_little_ends_the_text_before_its_first_word() -> None:
    assert outdented([b"x = 1\n", b"  ", b"  y\n", b" ", b" z"], 4) == ("x = 1\n    y\n  ", True)
    assert outdented([b"x = 1\n    y\n  z"], 4) == ("x = 1\n    y\n  ", True)
    assert outdented([b"a\n", b"\n", b"    b"], 4) == ("a\n", True)


def test_the_first_line_and_lines_indented_enough_go_on() -> None:
    assert outdented([b"x\n", b"\t\ty\n", b"    z"], 2) == ("x\n\t\ty\n    z", False)
    assert outdented([b"x\ny"], 0) == ("x\ny", False)


def test_a_stop_string_before_an_outdented_line_comes_first() -> None:
    assert outdented([b"x END\ny"], 2, ("END",)) == ("x ", False)
    assert outdented([b"x\ny END"], 2, ("END",)) == ("x\n", True)


def bounded(pieces: list[str], kind: str, count: int = 1, **options: Any) -> tuple[str, str]:
    """Return what is shown of `pieces`, and whatever ended it: a boundary, a stop string, an indentation or nothing."""
    text, shown = BranchText(finder=finder(kind, count), **options), ""
    for token, piece in enumerate(pieces):
        emission = text.push(token, piece.encode())
        shown += emission.text
        if emission.is_boundary or emission.stop or emission.is_outdented:
            assert not text.finish()
            return shown, "boundary" if emission.is_boundary else emission.stop or "outdented"
    return shown + text.finish().text, ""


def test_a_sentence_is_shown_with_its_end_and_without_what_decided() -> None:
    text = BranchText(finder=finder("sentence", 1))
    assert text.push(0, b"I saw Mr") == Emission("I saw Mr", [0])
    assert text.push(1, b". Sm") == Emission(". Sm", [1])
    assert text.push(2, b"ith!") == Emission("ith!", [2])
    assert text.push(3, b'" ') == Emission('"')
    assert text.push(4, b"(") == Emission()
    assert text.push(5, b"He") == Emission("", [3], is_boundary=True)
    assert not text.finish()


def test_what_is_held_back_is_shown_if_the_text_ends_there() -> None:
    assert bounded(["Yes. ", "\n", "J"], "sentence", 2) == ("Yes. \nJ", "")
    assert bounded(["Yes. J. R", ". "], "sentence", 3) == ("Yes. J. R. ", "")


def test_a_character_that_is_cut_off_may_decide() -> None:
    text = BranchText(finder=finder("word", 1))
    text.push(0, "你".encode())
    text.push(1, "好".encode()[:2])
    assert text.finish().text == "\ufffd"  # no letter, so nothing is decided


def test_of_stop_string_boundary_and_indentation_the_first_that_is_certain_counts() -> None:
    for cut in (list, lambda text: [text]):
        assert bounded(cut("Yes. No\n"), "sentence", stops=["\n"]) == ("Yes.", "boundary")
        assert bounded(cut("Yes.\nNo"), "sentence", stops=["\n"]) == ("Yes.", "\n")
        assert bounded(cut("Yes. No"), "sentence", stops=["s. N"]) == ("Ye", "s. N")
        assert bounded(cut("Yes. No"), "sentence", stops=["s. No"]) == ("Yes.", "boundary")
        assert bounded(cut("Yes.\nNo"), "sentence", n_indent=2) == ("Yes.", "boundary")
        assert bounded(cut("B.\nThe end"), "sentence", n_indent=2) == ("B.\n", "outdented")
        assert bounded(cut("a\nb"), "line", n_indent=2) == ("a\n", "boundary")


def test_logprob_tokens_concatenate_to_the_text_before_a_boundary() -> None:
    text = BranchText(finder=finder("word", 1))
    first = text.push(0, b" Once up", {"token": " Once up", "bytes": []})
    assert (first.text, first.tokens, first.is_boundary) == (" Once", [0], True)
    assert first.probs == [{"token": " Once", "bytes": list(b" Once")}]


@given(st.text("aB. \n“”。你3"), st.lists(st.integers(min_value=0)), st.sampled_from(["word", "line", "sentence"]))
def test_a_branch_that_ends_at_a_boundary_shows_the_beginning_of_the_text(
    text: str, places: list[int], kind: str
) -> None:
    branch, shown = BranchText(["\n“", "aa"], finder=finder(kind, 2)), ""
    for token, piece in enumerate(pieces_of(text.encode(), places)):
        emission = branch.push(token, piece)
        shown += emission.text
        if emission.is_boundary or emission.stop:
            break
    else:
        assert shown + branch.finish().text == text
    assert text.startswith(shown)
