"""Where words, lines, sentences and paragraphs end, in a dozen languages and however the text is cut into tokens."""

from __future__ import annotations

import random
from itertools import pairwise
from time import perf_counter
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srb.engine.boundaries import MAX_GAP, finder
from srb.wire.commands import Boundary

# `|` marks each end that is certain; a text after the last mark goes on, or may go on.
SENTENCES = [
    # English: plain ends, and what closes with them
    "He went home.| She stayed.| Then it rained",
    "ing home.| She stayed",
    ".| She stayed",
    "Is it?!| Yes!!!| Go",
    "“Go!” he said.| “Why?” she asked.| Then they left",
    '"Go!" he said.| "Really?"| She left',
    "He said \"go.\"| She said 'no.'| Then",
    '"Stop!" I said.| "Why?" he asked.| Then',
    "He left (at last!).| (She stayed.)| Then",
    "It was **bold.**| _Then_ it was not.| X",
    "Wait.\"'| She",
    "He wrote it.) and went.| She",
    "She said: “He told me ‘no.’”| Then",
    # abbreviations, initials, numbers
    "Mr. Smith met Mrs. Jones and Dr. No.| He",
    "J. R. R. Tolkien wrote it.| He lived",
    "J.R.R. Tolkien wrote it.| He lived",
    "A. A. Milne and J. I. Packer met.| So",
    "George W. Bush left.| So did I.| Then x",
    "Plan B.| The end",
    "It costs 3.14 dollars.| Then",
    "It costs $3.| Then it cost 4.| €5 is more",
    "See e.g. Smith, i.e. him, cf. Jones vs. Kent.| Then",
    "Apples, pears, etc. and more, etc.| Then",
    "The U.S. Army left the U.S.| Then x",
    "It is 5 p.m. now, at 5 p.m.| Mary left",
    "St. Louis is in No. 5, Fig. 3, vol. 2.| No.| Yes",
    "Gen. Lee and Prof. Kent, Ph.D. Smith of Acme Inc. and Jr.| He x",
    "I can't.| Mary can.| O'Neil can't",
    "See example.com for v1.2.3 of foo.py.| Then",
    "It was in 1984.| Then 85",
    "1. Go home.| Then",
    "Do this:\n1. Go home.|\n2. Eat.|\n3. Sleep.| X",
    "1.2. Go home.| Then",
    "AT&T.| Then R&D.| It",
    # ellipses
    "Well... I think so.| Then",
    "Wait… what?| No...| Then.| X",
    "He waited . . . and left.| Then . . .| She x",
    "... and so on.| ...And then.| X",
    "He left.| .NET stayed! ! ! and ...| ”Ja.”| X",
    "Hmm ...| Hmm.| X",
    # lines and empty lines
    "The end.|\nThe start.|\n\nX",
    "Chapter 1|\n\nIt was late.|\n\n\nNext |\n \nx",
    "A line\nthat goes on.| Then",
    "\n\nOnce upon a time.| Then",
    "Mr.|\n\nSmith",
    # emoji and symbols
    "Great!| 😀 Next",
    "Great!| — Yes, great!| - No",
    "No! — he said.| Then",
    # German
    "Er kam am 3. Mai an.| Dann ging er.| Nun",
    "Der 2. Weltkrieg und das XIX. Jahrhundert.| Ende",
    "Hunde, z. B. Dackel, d. h. kleine, bzw. Pudel.| Ja",
    "„Nein.“| „Doch!“, sagte er.| „Warum?“ fragte sie.| Dann",
    "»Nein.«| »Doch!« rief er.| ‚Gut.‘| Dann",
    "Das kostet ca. 3,50 Euro usw.| Dann",
    # French
    "« Oui. »| « Non ! » dit-il.| Puis rien !| Vraiment ?| Si",
    "M. Dupont et Mme. Dupont sont là.| Ils rient",
    "Il a dit : « Viens. »| Puis il partit.| Oui",
    # Spanish, Italian, Portuguese, Dutch, Polish, Swedish
    "¿Qué?| ¡No!| El Sr. García, la Sra. López y p. ej. Ana.| Luego",
    "EE. UU. ganó.| Luego",
    "Il Sig. Rossi parla.| «Sì.»| Poi",
    "O Sr. Silva saiu.| Depois",
    "Dhr. Jansen kwam, bijv. gisteren.| Toen",
    "Kupił np. Mleko.| Potem",
    "”Ja.”| ”Nej.” sade han.| Sedan t.ex. Anna.| Nu",
    # Russian
    "А. С. Пушкин и т. д. писали.| Потом",
    "— Иди! — сказал он.| — Нет.| Он",
    "Он жил в г. Москве, ул. Ленина.| «Да».| Она",
    "В. И. Ленин родился в 1870 г.| Он x",
    # Greek, Arabic, Hebrew, Hindi, Armenian, Georgian, Korean
    "Καλημέρα.| Τι κάνεις",
    "ما هذا؟| هذا كتاب.| نعم",
    "שלום.| מה שלומך?| ד. כהן",
    "यह घर है।| वह गया।| क्या",
    "Սա տուն է։| Այո",
    "ეს სახლია.| კარგი.| და",
    "집에 갔다.| 비가 왔다.| 네",
    # Chinese and Japanese
    "他走了。|然后下雨。|好",
    "他说：“好。”|然后走了！|是吗？|好",
    "“走吧！”|他说",
    "真的吗？！|好吧……他",
    "你好.|再见!|好",
    "第3.5版。|好",
    "彼は「行け！」と言った。|雨だ。|『はい。』|次",
    "３．１４です。|次",
    "「はい。」、と。|次",
    "Hello。|然后 world.| Then",
    # as real models write: ordinals before any noun, dialogues, lists
    "Es war die 18. Hauptversammlung des 20. Jubiläums.| Zur 3. Wahl kam er.| Nun",
    "Er war der 18.| Dann kam ich.| Nun",
    "I am 18.| My name is Ann.| So",
    "— Нет, — сказал я.|\n— Ты здесь?| — Да",
    "Это видел Я. Франк.| Он",
    "— Oui, dit M.|\n— Non",
    "—¡A las 12! —dijo Ana.|\n—Bien|\n—¿Cómo? —preguntó",
    "« Non. »|\n– oui, dit-il.| Je",
    "Nimm Mehl.|\n- zucker|\n- salz|\n\nDann",
    "Ingredients:\n- 1/2 cup of sugar|\n- 2 eggs|\n  - one white|\n* 3.5 spoons of salt|\n\nMix",
    "You need:|\n\n1. Flour|\n2. Two eggs|\n10) Salt and 3.5 spoons|\n11. Milk.|\n12. X",
    "- flour,\n- sugar;\n- salt.| Mix",
    "It was\n-5 degrees, or\n*very* cold, in\n1984 and\n20.5 at night.| Then",
    "**Note**:\n   - **Bold** text|\n   - **More**",
    "“I heard ‘yes.’” said a friend.| “No.”| He",
    "« Où es-tu ? » demanda-t-il.|\n« Ici. »|\n« Bien. »",
    "„Warum?“, fragte sie.|\n„Weil.“|\n„So?“",
    "他说：“去我家。”|\n她问：“去哪里？”|\n他",
]

WORDS = [
    "Once| upon| a| time",
    " there| lived|  a",
    "ing,| and",
    "“Yes,”| she| said",
    " — and| then",
    "well-known| don't| 3.14| x",
    "home—|and—| x",
    "home—|and| x",
    "wait...|what| x",
    "a--|b| x",
    "\n\n*bold*|\nx",
    "你|好，|世|界。|\n",
    "私|は|「コーヒー|を",
    "人々|が|3|個",
    "한국어| 말",
]

LINES = [
    "Once\n|",
    "\n\nOnce\n|upon\r\n|  \n\n a\n|time",
    "ing\n|x",
    "no end",
]

PARAGRAPHS = [
    "Once\nupon\n\n|a time\n \n|\n\nx\r\n\r\n|y",
    "\n\n\nOnce\n\n|x",
    "a\nb\nc",
]


def marked(text: str) -> tuple[str, list[int]]:
    """Return a text without its marks, and the marks' positions in it."""
    ends: list[int] = []
    parts = text.split("|")
    for part in parts[:-1]:
        ends.append(len(part) + (ends[-1] if ends else 0))
    return "".join(parts), ends


def end_of(kind: str, count: int, pieces: list[str]) -> int | None:
    """Return the position of the end that is found; assert that nothing behind it would have been shown."""
    looked = finder(kind, count)
    shown = seen = 0
    for piece in pieces:
        seen += len(piece)
        if found := looked.push(piece):
            assert shown <= found.end <= found.decided <= seen
            return found.end
        assert 0 <= looked.held <= MAX_GAP + 20
        shown = seen - looked.held
    return None


def cuts(text: str, chance: random.Random) -> list[str]:
    pieces, place = [], 0
    while place < len(text):
        size = chance.randint(1, 6)
        pieces.append(text[place : place + size])
        place += size
    return pieces


CASES = [
    *(("sentence", text) for text in SENTENCES),
    *(("word", text) for text in WORDS),
    *(("line", text) for text in LINES),
    *(("paragraph", text) for text in PARAGRAPHS),
]


@pytest.mark.parametrize(("kind", "text"), CASES)
def test_a_text_ends_at_its_marks_however_it_is_cut(kind: str, text: str) -> None:
    text, ends = marked(text)
    chance = random.Random(text)
    splits = [[text], list(text), *(cuts(text, chance) for _ in range(10))]
    for count in range(1, len(ends) + 2):
        expected = ends[count - 1] if count <= len(ends) else None
        found = {end_of(kind, count, pieces) for pieces in splits}
        assert found == {expected}, [text[:end] for end in found if end is not None]


@given(
    st.sampled_from(["word", "line", "sentence", "paragraph"]),
    st.integers(1, 3),
    st.text(st.sampled_from('aI.Mr 3!?…\n"“”«»()「」。，と你—-J*'), max_size=40),
    st.lists(st.integers(0, 40)),
)
def test_any_text_has_the_same_end_however_it_is_cut(kind: str, count: int, text: str, places: list[int]) -> None:
    edges = [0, *sorted(place for place in places if place < len(text)), len(text)]
    pieces = [text[a:b] for a, b in pairwise(edges)]
    assert end_of(kind, count, pieces) == end_of(kind, count, [text]) == end_of(kind, count, list(text))


@given(
    st.sampled_from(["word", "line", "sentence", "paragraph"]),
    st.lists(st.text(st.sampled_from("aI Mr.3!?\n\"',-(&"), min_size=1, max_size=6) | st.sampled_from([" and", " Mr"])),
)
def test_a_piece_that_is_skipped_leaves_a_finder_as_if_it_had_been_read(kind: str, pieces: list[str]) -> None:
    skipping, reading = finder(kind, 1000), finder(kind, 1000)
    for piece in pieces:
        held = skipping.held
        if skipping.skip(piece):
            assert held == 0
        else:
            skipping.push(piece)
        reading.push(piece)
        states = [
            {name: getattr(value, "__name__", value) for name, value in vars(each).items()}
            for each in (skipping, reading)
        ]
        assert states[0] == states[1]


@pytest.mark.parametrize("kind", ["line", "sentence", "paragraph"])
def test_words_are_skipped(kind: str) -> None:
    looked = finder(kind, 1)
    assert looked.push("Once") is None
    assert looked.skip(" upon") is True
    assert looked.skip(" a time.\n\n") is False


@pytest.mark.parametrize("gap", [" " * 1000, "\t" * 1000, " (" * 500, "\n" + " " * 1000, " »(" * 400, "\u3000" * 1000])
@pytest.mark.parametrize("end", [".", "!", "Mr.", "。", "", "J.", "…"])
def test_no_run_of_spaces_or_brackets_is_held_back_without_limit(end: str, gap: str) -> None:
    end_of("sentence", 2, list(f"Once{end}{gap}Then"))


def test_every_kind_of_the_protocol_has_a_finder() -> None:
    for kind in get_args(Boundary):
        assert finder(kind, 1).held == 0


def test_the_cost_of_a_character_does_not_grow_with_the_text() -> None:
    """The bound is loose: a second look at the whole text for each piece would take minutes."""
    looked = finder("sentence", 1000)
    began = perf_counter()
    for _ in range(20_000):
        assert looked.push("and so he went on, e.g. to Mr. ") is None
    assert perf_counter() - began < 20
