"""What a branch's text promises: whole characters, nothing lost, stop strings never shown."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from srb.engine.banned import START, Banned
from srb.engine.boundaries import finder
from srb.engine.patterns import fold
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
    parts = [part for emission in shown for part in emission.parts()]
    assert all(len(part.tokens) == len(part.probs) <= 1 for part in parts)
    assert "".join(part.text for part in parts) == text


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


def read_banned(pieces: list[bytes], banned: tuple[str, ...], stops: tuple[str, ...] = ()) -> list[Emission]:
    text = BranchText(stops, banned=Banned.of(banned, ()))
    return [text.push(token, piece) for token, piece in enumerate(pieces)]


def test_tokens_in_which_a_banned_string_may_begin_are_held_back_whole_until_it_cannot_be_one() -> None:
    emissions = read_banned([b"a dark sh", b"iver", b"ing", b" and"], ("shivers",))
    assert emissions == [Emission(), Emission(), Emission("a dark shivering", [0, 1, 2]), Emission(" and", [3])]


def test_a_banned_string_is_taken_back_with_the_token_that_begins_it_across_tokens_and_in_any_case() -> None:
    emissions = read_banned([b"It", b" was a SH", b"ive", b"Rs!"], ("shivers", "never"))
    assert emissions == [Emission("It", [0]), Emission(), Emission(), Emission(rewind=3)]
    text = BranchText(banned=Banned.of(("shivers",), ()))
    assert text.push(0, b" shiv") == Emission()
    assert text.push(1, b"ers") == Emission(rewind=2)
    assert text.num_held == 0
    assert text.push(2, b" shiv") == Emission()
    assert text.push(3, b"a") == Emission(" shiva", [2, 3])


def test_a_text_within_a_single_token_is_taken_back() -> None:
    assert read_banned([b"one", b" shivers down"], ("Shivers",))[-1] == Emission(rewind=1)


def test_overlapping_beginnings_hold_back_the_longest() -> None:
    emissions = read_banned([b"a", b"b", b"a", b"b", b"c"], ("abac", "bc"))
    assert [emission.text for emission in emissions[:-1]] == ["", "", "", "ab"]
    assert emissions[-1] == Emission(rewind=2)
    assert read_banned([b"aa"] * 3 + [b"ab"], ("aaab",))[-1] == Emission(rewind=2)


def test_a_string_that_goes_on_from_text_already_sent_is_taken_back_with_what_is_not() -> None:
    """After a rewind another token may continue text that could not begin a banned string before."""
    text = BranchText(banned=Banned.of(("the cat", "dog"), ()))
    assert text.push(0, b"the") == Emission()
    assert text.push(1, b" d") == Emission("the", [0])
    assert text.push(2, b"og") == Emission(rewind=2)
    assert text.push(3, b" c") == Emission()
    assert text.push(4, b"at") == Emission(rewind=2)
    assert text.push(5, b" hen") == Emission(" hen", [5])


def test_a_character_cut_by_tokens_is_taken_back_with_its_last_one() -> None:
    snowman = "☃".encode()
    text = BranchText(banned=Banned.of(("☃!",), ()))
    assert text.push(0, snowman[:1]) == Emission()
    assert text.push(1, snowman[1:] + b"?") == Emission("☃?", [0, 1])
    assert text.push(2, snowman[:2]) == Emission()
    assert text.push(3, snowman[2:]) == Emission(tokens=[2])
    assert text.push(4, b"!") == Emission(rewind=2)
    assert text.push(5, snowman[2:] + b".") == Emission("☃.", [5])


def test_letters_of_other_scripts_have_no_case_either() -> None:
    assert read_banned(["ΣΊΣΥΦΟς".encode()], ("σίσυφοΣ",))[-1] == Emission(rewind=1)
    assert read_banned(["STRASSE STRAßE".encode()], ("straße",))[-1] == Emission(rewind=1)
    assert read_banned(["İ".encode()], ("i",))[-1] == Emission("İ", [0])


def test_what_is_held_back_is_emitted_at_the_end() -> None:
    text = BranchText(banned=Banned.of(("shivers",), ()))
    assert text.push(0, b"a shive") == Emission()
    assert text.finish() == Emission("a shive", [0])


def test_a_truncated_character_that_would_complete_a_banned_string_is_not_shown() -> None:
    text = BranchText(banned=Banned.of(("a\ufffd",), ()))
    text.push(0, "a☃".encode()[:3])
    assert text.finish() == Emission("a", [0])


def test_of_a_stop_string_and_a_banned_string_the_one_that_completes_first_counts() -> None:
    assert read_banned([b"one two three"], ("two three",), ("two",))[0] == Emission("one ", [0], stop="two")
    assert read_banned([b"one two three"], ("one",), ("two",))[0] == Emission(rewind=1)
    assert read_banned([b"one two"], ("one two",), ("two",))[0] == Emission("one ", [0], stop="two")


@given(
    st.lists(st.text("aAbB☃ß", min_size=1, max_size=4), min_size=1, max_size=5),
    st.lists(st.text("aAbB☃ß", min_size=1, max_size=3), max_size=20),
)
def test_no_banned_string_is_shown_and_nothing_else_is_lost(banned: list[str], words: list[str]) -> None:
    """Words whose last one completes a banned string are left out, as if another were sampled in their place."""
    text = BranchText(banned=Banned.of(tuple(banned), ()))
    kept: list[tuple[int, str]] = []
    shown, tokens = "", []
    for token, word in enumerate(words):
        emission = text.push(token, word.encode())
        kept.append((token, word))
        if emission.rewind:
            assert any(fold(string) in fold("".join(each for _, each in kept)) for string in banned)
            del kept[-emission.rewind :]
            assert len(kept) >= len(tokens)
        whole = "".join(each for _, each in kept)
        assert not any(fold(string) in fold(whole) for string in banned)
        shown, tokens = shown + emission.text, tokens + emission.tokens
        assert whole.startswith(shown)
    emission = text.finish()
    assert shown + emission.text == "".join(each for _, each in kept)
    assert tokens + emission.tokens == [token for token, _ in kept]


@given(st.lists(st.text("abc", min_size=1, max_size=5), min_size=1), st.text("abc"), st.data())
def test_the_graph_finds_the_first_end_of_any_string_however_the_text_is_cut(
    strings: list[str], text: str, data: st.DataObject
) -> None:
    graph, reading, at = Banned(strings, ()), START, 0
    found = None
    while at < len(text) and found is None:
        part = text[at : at + data.draw(st.integers(1, 4))]
        reading, end, matches = graph.read(reading, part)
        found = (at + end, matches[0].shortest) if end else None
        at += len(part)
    ends = [(text.find(string) + len(string), len(string)) for string in strings if string in text]
    assert found == min(ends, default=None)


def test_half_a_character_before_what_is_taken_back_is_not_lost() -> None:
    text = BranchText(banned=Banned.of(("\ufffd?!",), ()))
    assert text.push(0, "☃".encode()[:2]) == Emission()
    assert text.push(1, b"?") == Emission("", [0])
    assert text.push(2, b"!") == Emission(rewind=2)
    assert text.push(3, b".") == Emission("\ufffd.", [3])


def test_a_boundary_counts_if_it_is_certain_before_a_banned_string_is_complete() -> None:
    for cut in (lambda text: [text], list):
        text = BranchText(finder=finder("sentence", 1), banned=Banned.of(("yes. no",), ()))
        emissions: list[Emission] = []
        for token, piece in enumerate(cut("Yes. No")):
            if not emissions or not emissions[-1].is_boundary:
                emissions.append(text.push(token, piece.encode()))
        assert "".join(emission.text for emission in emissions) == "Yes."
        assert emissions[-1].is_boundary
    text = BranchText(finder=finder("line", 1), banned=Banned.of(("s\n",), ()))
    assert text.push(0, b"Yes\n") == Emission(rewind=1)
    assert text.push(1, b"Yeah\n") == Emission("Yeah\n", [1], is_boundary=True)


def test_the_search_for_a_boundary_is_taken_back_too() -> None:
    text = BranchText(finder=finder("word", 2), banned=Banned.of(("two",), ()))
    assert text.push(0, b"one") == Emission("one", [0])
    assert text.push(1, b" t") == Emission()
    assert text.push(2, b"wo") == Emission(rewind=2)
    assert text.push(3, b" three") == Emission(" three", [3])
    assert text.push(4, b" four") == Emission("", [], is_boundary=True)


def test_a_boundary_that_was_asked_for_later_is_looked_for_from_there() -> None:
    text = BranchText(banned=Banned.of(("two three",), ()))
    assert text.push(0, b"one") == Emission("one", [0])
    assert text.push(1, b" two") == Emission()
    text.change_ends((), finder("word", 1))
    assert text.push(2, b" three") == Emission(rewind=2)
    assert text.push(3, b" too") == Emission(" too", [3])
    assert text.push(4, b" far") == Emission(is_boundary=True)


def test_a_banned_string_may_begin_in_the_text_that_a_fork_begins_with() -> None:
    text = BranchText(banned=Banned.of(("red fox",), ()))
    text.follow("A fox. A red fox and a red")
    assert text.push(0, b" f") == Emission()
    assert text.push(1, b"ox") == Emission(rewind=2)
    assert text.push(2, b" hen") == Emission(" hen", [2])


def test_a_text_that_goes_on_after_its_end_has_no_banned_string_across_it_either() -> None:
    text = BranchText(banned=Banned.of(("red fox",), ()))
    assert text.push(0, b"a red") == Emission()
    assert text.finish() == Emission("a red", [0])
    assert text.num_held == 0
    assert text.push(1, b" fox") == Emission(rewind=1)
    assert text.push(2, b" hen") == Emission(" hen", [2])
