"""Latest answers: those to questions that are asked again and again, for when the engine is too busy to answer.

The engine answers between two steps, and one may take long. A question is not sent again while it waits, however many ask;
an answer that comes too late for them is the latest one of those who ask next.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gevent

from srb.errors import SRBError, Unavailable
from srb.wire.commands import Ask, GetSlots, GetStats, ListRequests

MAX_QUESTIONS = 64  # whose answers are kept: owners' lists of requests, beside the numbers and slots

Question = GetStats | GetSlots | ListRequests


@dataclass(frozen=True, slots=True)
class Answer:
    """The value of an engine's reply, and the UNIX time at which it came."""

    value: Any
    at: float


class _Asked:
    """A question with its latest answer, and the greenlet that waits for the next one."""

    asking: Any = None
    answer: Answer | None = None


class LatestAnswers:
    """The answers of one engine."""

    def __init__(self, ask: Callable[[Ask], Any]) -> None:
        """Ask with `ask`, which may take long, and raises SRBError."""
        self._ask = ask
        self._asked: OrderedDict[Question, _Asked] = OrderedDict()

    def get(self, question: Question, deadline: float) -> Answer:
        """Return the engine's answer, or after `deadline` seconds the latest one. Raise Unavailable if there is none."""
        asked = self._entry(replace(question, request_id=""))
        until = time.monotonic() + deadline
        if asked.asking is not None:
            asked.asking.join(deadline)  # it was asked before: its answer may lack what the caller has just begun
        if asked.asking is None or asked.asking.ready():
            asked.asking = gevent.spawn(self._answer, asked, question)
        asking = asked.asking
        asking.join(max(0.0, until - time.monotonic()))
        error = asking.value  # None while it waits
        if error is not None and not (type(error) is Unavailable and asked.answer):
            raise error
        if asked.answer is None:
            raise Unavailable("The engine did not answer in time")
        return asked.answer

    def forget(self) -> None:
        """Forget all answers: the next ones are another engine's."""
        for asked in self._asked.values():
            asked.answer = None

    def _entry(self, key: Question) -> _Asked:
        asked = self._asked.setdefault(key, _Asked())
        self._asked.move_to_end(key)
        while len(self._asked) > MAX_QUESTIONS:
            self._asked.popitem(last=False)
        return asked

    def _answer(self, asked: _Asked, question: Question) -> SRBError | None:
        try:
            asked.answer = Answer(self._ask(question), time.time())
        except SRBError as error:
            return error
        return None
