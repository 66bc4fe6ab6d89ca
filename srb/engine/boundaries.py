"""Ends of words, lines, sentences and paragraphs, found while a text arrives.

A finder sees each character once and keeps a few words of state, so its cost does not grow with the text. Some ends are
certain only later: the dot of "Mr." looks like a sentence's until the next word is known. `held` counts the characters
that wait for such a decision. The result does not depend on how the text is cut into pieces.

Sentences follow rules of punctuation, of letter case and of abbreviations in a dozen languages; the text's language need
not be known. Libraries (pysbd, syntok, sentencex, NLTK's Punkt, BlingFire, ICU) split a whole text whose language they
are told, and may decide otherwise when more of it is there; stream2sentence and sentence-stream drop the positions and
the spaces between sentences. None says from where on a text is undecided.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from unicodedata import category

MAX_GAP = 64  # characters held back at most after a possible end: fewer cut long gaps of spaces, more stop the stream
_MAX_WORD = 16  # characters; longer words are in no list, and a text without spaces must not gather here

# Ends of sentences in scripts with spaces between sentences, and in those without.
_DOTS = ".…"
_SPACED = f"{_DOTS}!?‼⁇⁈⁉‽؟۔।॥։።။។"
_UNSPACED = "。！？｡．"
_TERMINALS = frozenset(_SPACED + _UNSPACED)

_QUOTES = "\"'”’“‘»«›‹"
_CLOSERS = frozenset(f"{_QUOTES}`*_~)]}}」』）】〉》］｝〕〗〙＂＇″")
_AMBIGUOUS = frozenset("»›”’)]}")  # after a space: closing if no word follows at once, as in French « Oui. »
_COMMAS = frozenset(",;:，、；：,")  # a sentence goes on after these
_OPENERS = frozenset("「『（《〈【〔“‘")  # of scripts without spaces
_JOINTS = frozenset("—―…")


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Abbreviations without their last dot, in lower case. A sentence never ends after these, …
_NEVER = _listed(
    """
    mr mrs mx messrs dr drs mme mlle mlles e.g eg i.e ie vs viz cf approx hrn frl dipl bzw z.b zb d.h sog ggf
    evtl inkl zzgl vgl p.ex sra srta sres dra dña p.ej ej ee sigg sig.ra dott.ssa exmo exma dhr mevr bijv d.w.z
    t.ex bl.a f.eks m.in tzn tj напр
    """
)
# … nor after these before a number, …
_NUMBERED = _listed(
    """
    no nr nos num núm nº n° fig figs pp pag pág vol vols art arts ch chap sec sect eq op tab abb bd jan feb mar apr
    jun jul aug sep sept oct okt nov dec dez тел рис стр пп ст гл
    """
)
# … and after these, or a single letter, only before a word that often begins a sentence.
_SHORT = _listed(
    """
    prof rev hon ex ms gen col capt lt sgt cmdr sen gov rep pres st mt ft ave blvd rd jr sr fr ca ph.d b.sc m.sc bros hr
    ing mm mgr env av ud uds dn lic uu sig dott avv mw np ul гг тт др пр им ул тов проф акад св
    """
)
# These look like initials, and end like any word.
_PLAIN = frozenset({"a.m", "p.m"})
_STARTERS = _listed(
    """
    the he she it they we you i this that these those there then but and so his her its their my our your in on at
    an a when while after before if as for what who why how where not no yes one once suddenly however from to with
    by der die das er sie es wir ihr ich dann und aber doch so als wenn im am in ein eine dieser diese dieses man
    nun da le la les il elle ils elles nous vous je on un une et mais puis ce cette ces dans alors quand el ella
    ellos ellas los las lo yo nosotros un una y pero luego entonces en este esta он она они оно мы вы я это но и а в
    на с когда потом тогда затем так не
    """
)
# A number with a dot before one of these is an ordinal (am 3. Mai), elsewhere the end of a sentence.
_COUNTED = _listed(
    """
    januar jänner februar märz april mai juni juli august september oktober november dezember jahrhundert
    jahrhunderts jahrtausend weltkrieg weltkriegs kapitel klasse platz stock stockwerk tag tage mal auflage band akt
    teil stunde lebensjahr geburtstag jahrestag januari februari mars marts maj august kongress semester liga
    bundesliga
    """
)
# … and after one of these any noun may be counted (der 18. Parteitag); "am" is an English word, too.
_ARTICLES = _listed("der des dem den das die im zum zur vom beim")
_ROMAN = frozenset("IVXLCDM")
_DASHES = "—―–"
# The beginning of an entry in a list, as far as it is there; and whole ones, which a space follows.
_ITEM_SO_FAR = re.compile(r"[-*•·]|[0-9]{1,3}[.)]?")
_ITEM = re.compile(r"[-*•·]|[0-9]{1,3}[.)]")
_WORDS = re.compile('([A-Za-z ]*)([,;:"(-]?)')  # in a sentence these decide nothing


@dataclass(frozen=True, slots=True)
class Found:
    """The end that was asked for: the text ends before character `end`; it was certain after `decided` characters."""

    end: int
    decided: int


class Finder:
    """The end of the `count`-th piece of a text, of the kind that a subclass defines in `_take`."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._at = 0  # position of the next character
        self._ended = 0  # pieces that have ended
        self._end: int | None = None  # where the piece ends if what follows allows it

    @property
    def held(self) -> int:
        """Number of the last characters that are behind the end if it turns out to be one."""
        return 0 if self._end is None else self._at - self._end

    def push(self, text: str) -> Found | None:
        """Take more of the text; return the end once it is certain. Do not call again after that."""
        for char in text:
            end = self._take(char)
            self._at += 1
            if end is not None:
                self._ended += 1
                if self._ended == self._left:
                    return Found(end, self._at)
        return None

    def skip(self, text: str) -> bool:
        """Take a text of ASCII characters at once, as most tokens allow; False takes nothing: `push` has to look at it.

        Never true where it ends a piece, or while something is held.
        """
        return False

    def _take(self, char: str) -> int | None:
        """Take the character at `_at`; return the end of a piece if it is certain now."""
        raise NotImplementedError


class _Words(Finder):
    """Words end before a space. A word has a letter or digit, and what is written to it without a space belongs to it.

    A dash or an ellipsis between two words ends the first. Each Chinese character and each hiragana is a word.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._last = ""  # the latest letter or digit of the word, if it has one
        self._previous = ""  # the latest character
        self._is_joint = False  # whether a dash or an ellipsis came after it

    def _take(self, char: str) -> int | None:
        previous, self._previous = self._previous, char
        if not self._last:
            self._last = char if char.isalnum() else ""
            return None
        if char.isspace():
            self._last, self._is_joint = "", False
            return self._at
        if not char.isalnum():
            self._is_joint = self._is_joint or char in _JOINTS or char == previous in ("-", ".")
            return self._begin("") if char in _OPENERS and _is_ideograph(self._last) else None
        is_run = _is_katakana(self._last) and _is_katakana(char)
        if char not in "ー々" and not is_run and (self._is_joint or _is_ideograph(self._last) or _is_ideograph(char)):
            return self._begin(char)
        self._last = char
        return None

    def _begin(self, last: str) -> int:
        self._last, self._is_joint = last, False
        return self._at


class _Lines(Finder):
    """Lines end after their newline; empty lines, and lines of spaces, do not count."""

    has_text = False

    def skip(self, text: str) -> bool:
        if "\n" in text:
            return False
        self.has_text = self.has_text or not text.isspace()
        self._at += len(text)
        return True

    def _take(self, char: str) -> int | None:
        if char == "\n" and self.has_text:
            self.has_text = False
            return self._at + 1
        self.has_text = self.has_text or not char.isspace()
        return None


class _Paragraphs(Finder):
    """Paragraphs end after the newline of an empty line, or of a line of spaces; more of these do not count."""

    has_text = False
    is_line_empty = False  # whether the current line follows text and is empty so far

    def skip(self, text: str) -> bool:
        if "\n" in text:
            return False
        if not text.isspace():
            self.has_text, self.is_line_empty = True, False
        self._at += len(text)
        return True

    def _take(self, char: str) -> int | None:
        if not char.isspace():
            self.has_text, self.is_line_empty = True, False
        elif char == "\n" and self.has_text:
            if self.is_line_empty:
                self.has_text = self.is_line_empty = False
                return self._at + 1
            self.is_line_empty = True
        return None


class _Dot(Enum):
    """The meaning of a sentence's possible end, which decides what has to follow if it is one."""

    PLAIN = auto()  # an end, unless a lower-case letter or a comma follows
    UNSPACED = auto()  # an end, unless a comma follows
    NEVER = auto()  # an abbreviation that a sentence does not end with
    SHORT = auto()  # an initial or an abbreviation: an end before a word that often begins a sentence
    NUMBERED = auto()  # an end, unless a number follows
    COUNT = auto()  # after a number: an end, unless the thing that is counted follows
    SPEECH = auto()  # an end, unless a lower-case letter, a comma or "I" follows


# Kinds that are decided by the whole next word: whether the sentence ends before it.
_DECIDES: dict[_Dot, Callable[[str], bool]] = {
    _Dot.SHORT: lambda word: word.lower() in _STARTERS,
    _Dot.COUNT: lambda word: word.lower() not in _COUNTED,
    _Dot.SPEECH: lambda word: word != "I",
}


class _Sentences(Finder):
    """Sentences end after their punctuation with the quotes and brackets that close there, or before an empty line.

    A text may begin in the middle of a sentence; then that one is the first.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._state: Callable[[str], int | None] = self._in_body
        self._word = ""  # the latest word, with inner dots; at most _MAX_WORD characters
        self._prior = ""  # the word before it
        self._item = ""  # what may begin an entry of a list, in a new line
        self._has_word = False  # whether the sentence has one
        self._begins_line = True  # whether nothing but the latest word is in its line
        self._before = ""  # the character before the punctuation
        self._dot = _Dot.PLAIN
        self._punctuation = ""  # of the possible end, the first three characters
        self._is_closed = False  # whether a quote or bracket closed after it
        self._newlines = 0  # in the current run of spaces
        self._later: int | None = None  # the end if it takes in the punctuation or the quote that follows after a space
        self._later_dot = _Dot.PLAIN

    def skip(self, text: str) -> bool:
        if self._end is not None or self._state != self._in_body:
            return False
        if text[:1] == " " and not self._begins_line and (word := text[1:]).isalpha():  # most tokens
            self._prior, self._word = self._word, word[:_MAX_WORD]
            self._has_word, self._before = True, word[-1]
            self._at += len(text)
            return True
        if not (found := _WORDS.fullmatch(text)):
            return False
        words, mark = found.groups()
        before, space, last = words.rpartition(" ")
        if space:
            self._begins_line = self._begins_line and not self._word and not before.strip() and self._at > 0
            _, inner, prior = before.rpartition(" ")
            self._prior, self._word = (prior if inner else self._word + prior)[:_MAX_WORD], ""
        self._word = (self._word + last)[:_MAX_WORD]
        if letters := words.rstrip():
            self._has_word, self._before = True, letters[-1]
        if mark:
            self._word, self._begins_line, self._before = "", False, mark
        self._at += len(text)
        return True

    def _take(self, char: str) -> int | None:
        return self._state(char)

    def _in_body(self, char: str) -> int | None:
        """Inside a sentence."""
        if char.isspace():
            return self._space_in_body(char)
        if self._newlines:
            if self._end is not None and self._before not in _COMMAS:
                if char in _DASHES:
                    return self._begin(char)  # of a dialogue
                if _ITEM_SO_FAR.fullmatch(char):
                    self._state, self._item = self._in_item, char
                    return None
            self._newlines, self._end = 0, None
        if char in _TERMINALS and (self._has_word or not self._ended):
            self._begin_end(char)
            return None
        if is_word(char) or (self._word and char in "'’&"):
            self._add(char)
        else:
            self._word, self._begins_line = "", False
        self._before = char
        return None

    def _in_item(self, char: str) -> int | None:
        """In what may begin an entry of a list: then the sentence ended with the line before, also without a mark."""
        item, end = self._item, None
        if _ITEM_SO_FAR.fullmatch(item + char):
            self._item += char
            return None
        if char.isspace() and _ITEM.fullmatch(item):
            end = self._begin()
        self._state, self._item, self._newlines = self._in_body, "", 0
        self._end = None
        at = self._at
        for self._at, each in enumerate(item, at - len(item)):
            self._state(each)
        self._at = at
        self._state(char)
        return end

    def _space_in_body(self, char: str) -> int | None:
        self._prior = self._word
        if char == "\n":
            self._word, self._begins_line = "", True
            if self._newlines and self._end is not None:
                return self._begin()
            if self._has_word:
                self._newlines, self._end = 1, self._at
        else:
            # A text that begins with a space goes on in a line; one that begins with "1." begins a list.
            self._begins_line = self._begins_line and not self._word and self._at > 0
            self._word = ""
            if self.held >= MAX_GAP:
                self._newlines, self._end = 0, None
        return None

    def _begin_end(self, char: str) -> None:
        self._state = self._after_end
        self._end = self._at + 1
        self._punctuation, self._is_closed, self._newlines, self._later = char, False, 0, None
        self._dot = _Dot.UNSPACED if char in _UNSPACED else self._kind() if char == "." else _Dot.PLAIN

    def _after_end(self, char: str) -> int | None:
        """Directly after punctuation and what closes with it."""
        if char in _TERMINALS:
            self._end, self._dot = self._at + 1, self._take_terminal(char)
        elif char in _CLOSERS and not (self._dot is _Dot.UNSPACED and char in "“‘"):
            self._end, self._is_closed = self._at + 1, True
        elif char.isspace():
            self._state, self._begins_line = self._in_gap, False
            if self._is_pause:
                self._dot = _Dot.SPEECH
            return self._in_gap(char)
        elif self._ends_before(char):
            return self._begin(char)
        else:
            if self._punctuation == "." and not self._is_closed and self._word and is_word(char):
                self._add(".")
            else:
                self._word, self._begins_line = "", False
            return self._go_on(char)
        return None

    def _take_terminal(self, char: str) -> _Dot:
        """Add one more character of punctuation; return the meaning of all: it ends any word that came before."""
        self._punctuation = (self._punctuation + char)[:3]  # an ellipsis has three; no more are looked at
        return _Dot.UNSPACED if char in _UNSPACED else _Dot.PLAIN

    @property
    def _is_pause(self) -> bool:
        """Whether the punctuation may also stand inside a sentence: an ellipsis, or an exclamation in quotes."""
        return self._is_ellipsis or (self._is_closed and self._punctuation[-1] in "!?")

    @property
    def _is_ellipsis(self) -> bool:
        return self._punctuation.startswith(("..", "…"))

    def _ends_before(self, char: str) -> bool:
        """Whether the sentence ends directly before a character that is no space."""
        if char in _COMMAS:
            return False
        if self._dot is _Dot.UNSPACED:
            # 「行け！」と言った goes on, and so does ３．１４.
            return not (self._is_closed and char in "とっ") and not (self._punctuation == "．" and char.isdigit())
        return not self._is_ellipsis and _is_ideograph(char) and _is_ideograph(self._before)

    def _in_gap(self, char: str) -> int | None:
        """After a possible end and a space, before the next word."""
        if self._later is not None and (char.isspace() or char in _COMMAS):
            self._end, self._dot, self._later = self._later, self._later_dot, None
            if self._is_pause:
                self._dot = _Dot.SPEECH
        if char.isspace():
            if char == "\n":
                self._newlines, self._begins_line = self._newlines + 1, True
            return self._begin() if self._newlines > 1 or self.held >= MAX_GAP else None
        if char in _COMMAS:
            return self._go_on(char)
        if self._newlines and (char in _DASHES or char in "-•·"):
            return self._begin(char)  # a line of a dialogue, or an entry of a list
        self._newlines = 0
        if char in _TERMINALS:
            self._later, self._later_dot = self._at + 1, self._take_terminal(char)
        elif char in (_AMBIGUOUS if self._later is None else _CLOSERS):
            self._later_dot = self._dot if self._later is None else self._later_dot
            self._later, self._is_closed = self._at + 1, True
        elif is_word(char) or category(char) == "Sc":
            return self._next_word(char)
        else:
            self._later = None
        return self._begin() if self.held >= MAX_GAP else None

    def _next_word(self, char: str) -> int | None:
        """Take the first character of the word after a possible end."""
        self._later = None
        if not char.isalpha():  # a number, or a currency before one
            goes_on = self._dot in (_Dot.NEVER, _Dot.SHORT, _Dot.NUMBERED)
            return self._go_on(char) if goes_on else self._begin(char)
        if self._dot is _Dot.NEVER or (_is_small(char) and self._dot is not _Dot.UNSPACED):
            return self._go_on(char)
        if self._dot in _DECIDES and not (self._dot is _Dot.SPEECH and char != "I"):
            self._state, self._word = self._in_next_word, char
            return None
        return self._begin(char)

    def _in_next_word(self, char: str) -> int | None:
        """In the word after a possible end that this word decides."""
        if is_word(char) and len(self._word) < _MAX_WORD:
            self._word += char
            return None
        word = self._word
        is_initial = char == "." and len(word) == 1
        if not is_initial and _DECIDES[self._dot](word):
            end = self._begin()
            self._word, self._has_word = word, True
            self._in_body(char)
            return end
        self._state, self._end, self._before = self._in_body, None, word[-1]
        return self._in_body(char)

    def _begin(self, char: str = "") -> int:
        """Begin the next sentence, with `char` as its first character; return the end of this one."""
        end = self._end
        assert end is not None
        self._state, self._end, self._newlines = self._in_body, None, 0
        self._prior, self._word, self._has_word = "", "", False
        if char:
            self._in_body(char)
        return end

    def _go_on(self, char: str) -> int | None:
        """Go on with the sentence: the possible end was none."""
        if self._state == self._in_gap:
            self._prior, self._word = self._word, ""
        self._state, self._end, self._newlines = self._in_body, None, 0
        return self._in_body(char)

    def _add(self, char: str) -> None:
        self._has_word = True
        if len(self._word) < _MAX_WORD:
            self._word += char

    def _kind(self) -> _Dot:
        """Return the meaning of a dot after the latest word."""
        word = self._word.lower()
        parts = word.split(".")
        if self._begins_line and all(part.isdecimal() and len(part) < 4 for part in parts):
            return _Dot.NEVER  # the number of an entry in a list; four digits are a year
        if word.isdecimal() and len(word) <= 2:
            return _Dot.SHORT if self._prior.lower() in _ARTICLES else _Dot.COUNT
        if word in _NEVER:
            return _Dot.NEVER
        if word in _NUMBERED:
            return _Dot.NUMBERED
        if len(word) > 1 and _ROMAN.issuperset(self._word):
            return _Dot.COUNT
        is_initials = all(len(part) == 1 and part.isalpha() and not _is_ideograph(part) for part in parts)
        if word in _SHORT or (is_initials and word not in _PLAIN and self._word != "я"):
            return _Dot.SHORT
        return _Dot.PLAIN


def is_word(char: str) -> bool:
    """Whether a character belongs to a word: a letter, a digit, or a mark on one."""
    return char.isalnum() or (char > "\x7f" and category(char)[0] == "M")


def _is_small(char: str) -> bool:
    """Whether a letter is lower case in a script that begins its sentences with capitals."""
    return char.islower() and char.title() != char


def _is_ideograph(char: str) -> bool:
    """Whether a character is Chinese, or Japanese kana."""
    return (
        "\u3041" <= char <= "\u30ff"
        or "\u3400" <= char <= "\u9fff"
        or "\uf900" <= char <= "\ufaff"
        or char > "\U0001ffff"
    )


def _is_katakana(char: str) -> bool:
    return "\u30a1" <= char <= "\u30ff"


_FINDERS: dict[str, type[Finder]] = {"word": _Words, "line": _Lines, "sentence": _Sentences, "paragraph": _Paragraphs}


def finder(kind: str, count: int) -> Finder:
    """Return a new finder of the end of the `count`-th word, line, sentence or paragraph of a text."""
    return _FINDERS[kind](count)
