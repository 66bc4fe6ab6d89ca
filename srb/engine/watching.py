"""Watch: where a reply's text stands, for a grammar that begins at a trigger and for a reasoning budget.

Grammar: it waits until the text has one of its triggers, and then constrains the text from the trigger on. Triggers in
reasoning are skipped. The trigger "answer" is the end of the reasoning, or the beginning of a text without any; then an
answer has to come. Budget: when the reasoning has as many tokens as it may have, a message and its end tag are forced,
unless a grammar holds from the first token. `end_reasoning` lowers the budget to the tokens that there are.

A watch keeps the end of the text, as long as the longest thing that it waits for, so a token costs the same everywhere.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto

from srb.config.sampling_params import SamplingParams
from srb.engine.model import Model

MAX_TRIES = 64  # draws of a token that begins the grammar wrongly; then it is a dead end, or the step would never end
MAX_SPACE = 4  # characters of white space before reasoning, where a grammar waits; a model may go on with it for ever


class Phase(Enum):
    """Where the text is, seen from its reasoning."""

    BEFORE = auto()  # nothing but space so far
    INSIDE = auto()
    AFTER = auto()


@dataclass(frozen=True, slots=True)
class _State:
    place: Phase
    spent: int = 0  # tokens of reasoning
    num_forced: int = 0
    is_forcing: bool = False
    is_on: bool = False  # whether the grammar constrains the text
    is_start: bool = True  # whether the text since the beginning, or since the reasoning, may be the start of a trigger
    tail: bytes = b""


class Watch:
    """The watch of one branch; `state` is all that changes, and may be kept and set again."""

    def __init__(self, params: SamplingParams, model: Model) -> None:
        self._piece: Callable[[int], bytes] = lambda token: model.piece(token, special=True)
        triggers = params.grammar_triggers
        self._words = tuple(text.encode() for kind, text in triggers if kind == "word" and isinstance(text, str))
        self._starts = tuple(text.encode() for kind, text in triggers if kind == "start" and isinstance(text, str))
        self._tokens = frozenset(token for _, token in triggers if isinstance(token, int))
        self.is_lazy = bool(triggers)
        self.awaits_answer = any(kind == "answer" for kind, _ in triggers)
        self._is_eog = model.is_eog
        opening, closing = params.reasoning_tags or ("", "")
        self._opening, self._closing = opening.lstrip().encode(), closing.encode()
        self._budget = params.reasoning_budget_tokens if closing else -1
        self._forced: tuple[int, ...] = ()
        may_be_cut = self._budget >= 0 or params.reasoning_control
        if closing and (may_be_cut or self.awaits_answer):
            text = (params.reasoning_budget_message if may_be_cut else "") + closing
            self._forced = tuple(model.tokenize(text, add_special=False, parse_special=True))
        self._room = max(map(len, (*self._words, *self._starts, self._opening, self._closing, b"1234")))
        place = Phase.AFTER if not closing else Phase.BEFORE if opening else Phase.INSIDE
        self.state = _State(place, is_on=self.awaits_answer and place is Phase.AFTER)

    def __repr__(self) -> str:
        grammar = "on" if self.is_on else "awaited" if self.is_lazy else "eager"
        return f"<Watch {self.state.place.name.lower()}, {self.state.spent} tokens of reasoning, grammar {grammar}>"

    def copy(self) -> "Watch":
        """Return a watch that goes on from the same state by itself."""
        made = Watch.__new__(Watch)
        made.__dict__.update(self.__dict__)
        return made

    def end_reasoning(self) -> bool:
        """Have the reasoning end now, or as soon as it begins; return whether it is not over yet."""
        state = self.state
        if state.place is Phase.AFTER:
            return False
        self._budget = state.spent if self._budget < 0 else min(self._budget, state.spent)
        return True

    @property
    def is_on(self) -> bool:
        """Whether the grammar constrains the next token."""
        return self.state.is_on or not self.is_lazy

    @property
    def forced(self) -> int | None:
        """The token that has to come next; None: any."""
        state = self.state
        if state.is_forcing:
            return self._forced[state.num_forced]
        if state.place is not Phase.INSIDE or not 0 <= self._budget <= state.spent or not self._forced:
            return None
        if self._is_ending(state.tail) and state.spent < self._budget + len(self._closing):
            return None
        return self._forced[0] if _is_whole(state.tail) else None

    @property
    def is_undecided(self) -> bool:
        """Whether the text may still begin with reasoning or with the answer that has to come."""
        return self.awaits_answer and self.state.place is Phase.BEFORE

    @property
    def begun(self) -> tuple[bytes, bytes]:
        """The text so far of a watch that is undecided, and what it lacks of the tag that begins reasoning."""
        text = self.state.tail
        return text, self._opening[len(text.lstrip()) :]

    def instead_of(self, token: int) -> int:
        """Return `token`; if it ends the text within reasoning, and an answer has to come, that of the end tag."""
        if not self.awaits_answer or self.state.place is not Phase.INSIDE or not self._is_eog(token):
            return token
        if self.forced is None:
            self.state = replace(self.state, is_forcing=True, num_forced=0)
        return self._forced[self.state.num_forced]

    def _is_ending(self, text: bytes) -> bool:
        """Whether the text ends with a beginning of the tag that ends reasoning."""
        return any(text.endswith(self._closing[:size]) for size in range(1, len(self._closing)))

    def begun_by(self, token: int) -> bytes | None:
        """Return the text from a trigger on if `token` completes one, else None. Nothing changes."""
        return self._after(token)[1]

    def accept(self, token: int) -> bytes | None:
        """Go on by a token; return the text from a trigger on if the token completes one, else None."""
        self.state, begun = self._after(token)
        return begun

    def _after(self, token: int) -> tuple[_State, bytes | None]:
        state = self.state
        if state.is_on:
            return state, None
        piece = self._piece(token)
        text = state.tail + piece
        if state.place is Phase.BEFORE:
            begun = text.lstrip()
            if begun.startswith(self._opening):
                rest = begun[len(self._opening) :]
                return replace(state, place=Phase.INSIDE, tail=rest[-self._room :]), None
            if self.awaits_answer:
                may_reason = self._opening.startswith(begun) and len(text) - len(begun) <= MAX_SPACE
                if may_reason or self._is_eog(token):
                    return replace(state, tail=text), None
                return replace(state, place=Phase.AFTER, is_on=True, tail=b""), text
            if self._opening.startswith(begun):
                return replace(state, tail=begun), None
            state = replace(state, place=Phase.AFTER, tail=b"")  # the whole text is new to the triggers
            return self._triggered(state, text, token)
        if state.place is Phase.INSIDE:
            return self._reasoned(state, text, token)
        return self._triggered(state, text, token)

    def _reasoned(self, state: _State, text: bytes, token: int) -> tuple[_State, bytes | None]:
        is_forced = self.forced is not None
        num_forced = state.num_forced + is_forced
        if self._closing in text or (is_forced and num_forced == len(self._forced)):
            after = replace(state, place=Phase.AFTER, tail=b"", is_forcing=False, is_on=self.awaits_answer)
            return after, text.partition(self._closing)[2] if self.awaits_answer else None
        spent = state.spent + 1
        return replace(state, spent=spent, num_forced=num_forced, is_forcing=is_forced, tail=text[-self._room :]), None

    def _triggered(self, state: _State, text: bytes, token: int) -> tuple[_State, bytes | None]:
        if not self.is_lazy:
            return replace(state, tail=b""), None
        begun: bytes | None = None
        if token in self._tokens:
            begun = self._piece(token)
        places = [place for word in self._words if (place := text.find(word)) >= 0]
        if places:
            begun = text[min(places) :]
        is_start = state.is_start
        if is_start and begun is None:
            start = text.lstrip()
            if any(start.startswith(word) for word in self._starts):
                begun = start
            is_start = any(word.startswith(start) for word in self._starts)
        return replace(state, is_on=begun is not None, is_start=is_start, tail=text[-self._room :]), begun


def _is_whole(text: bytes) -> bool:
    """Whether a text does not end within a character."""
    for back in range(1, min(4, len(text)) + 1):
        byte = text[-back]
        if byte < 0x80:
            return True
        if byte >= 0xC0:
            return back >= (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4)
    return True


def watch_of(params: SamplingParams, model: Model) -> Watch | None:
    """Return the watch that a branch with these parameters needs, if any.

    A grammar that holds from the first token decides alone where its text ends; a budget has no say in it.
    """
    may_be_cut = params.reasoning_budget_tokens >= 0 or params.reasoning_control
    has_budget = may_be_cut and params.reasoning_tags and not params.grammar
    return Watch(params, model) if params.grammar_triggers or has_budget else None
