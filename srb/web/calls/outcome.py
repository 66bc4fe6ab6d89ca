"""Outcome: the gathered branches of a call that is not streamed, and the sums of its usage and timings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ParamSpec, TypeVar

from srb.errors import SRBError, from_code
from srb.web.answers import PromptTokensDetails, Ranking, Timings, Usage
from srb.web.bodies.fields import Rank
from srb.web.calls.answer_size import echoed_bytes, grown_too_large, weight
from srb.web.calls.calls import Call
from srb.web.calls.mailbox import Mailbox
from srb.web.calls.meaning import By, Embed, Likeness, logprobs_of, meaning_of
from srb.web.calls.ranking import Candidate, Select, choose, likeliest_first, rank
from srb.web.loop.yielding import in_thread
from srb.wire.commands import Generate
from srb.wire.events import (
    BranchAdded,
    BranchEnded,
    Delta,
    Done,
    Failed,
    FinishReason,
    PromptDone,
    PromptLogprobs,
    Resting,
    TokenProbs,
)

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class BranchOutcome:
    """The outcome of one branch: its text, token ids, probabilities (if asked for) and end."""

    seed: int
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    probs: list[TokenProbs] = field(default_factory=list)
    ended: BranchEnded | None = None
    origin: int | None = None  # of a fork: the index of its origin, and how many of its tokens it has
    token: int | None = None
    direction: str = ""

    @property
    def error(self) -> SRBError | None:
        """The error of a failed branch, else None."""
        return error_of(self.ended) if self.ended else None

    @property
    def candidate(self) -> Candidate:
        """The branch as a ranking sees it."""
        return Candidate(self.text, self.ended.logprob if self.ended else None, self.error is not None)

    def add(self, event: Delta) -> None:
        self.text += event.text
        self.tokens += event.tokens
        self.probs += event.probs or ()


def error_of(ended: BranchEnded) -> SRBError | None:
    """Return the error of a failed branch, else None."""
    return from_code(ended.code, ended.message) if ended.reason == FinishReason.ERROR else None


class PromptTimes:
    """The PromptDone event of each prompt of a call."""

    def __init__(self) -> None:
        self._prompts: dict[str, PromptDone] = {}

    def put(self, event: PromptDone) -> None:
        self._prompts[event.request_id] = event

    def choose(self, request_id: str, slots: list[int]) -> None:
        """Take the slots of a request's chosen branches for those of its branches."""
        if request_id in self._prompts:
            self._prompts[request_id] = replace(self._prompts[request_id], slots=slots)

    def prompt(self, request_id: str) -> PromptDone:
        """Return the event of a request's prompt; it has zeros if the branches ended before the prompt was done."""
        return self._prompts.get(request_id) or PromptDone(request_id, 0, 0, 0.0)


@dataclass(slots=True)
class Outcome:
    """The outcome of a call: `branches` of all its requests, in the requests' order, and one Done per request.

    `prompt_logprobs` has the log-probability entries of prompt tokens by request id, if they were asked for.
    """

    branches: list[BranchOutcome]
    done: list[Done]
    prompt_logprobs: dict[str, list[TokenProbs]] = field(default_factory=dict)
    times: PromptTimes = field(default_factory=PromptTimes)

    chosen_by: By | None = None  # by what branches differ that were chosen by their meaning

    def best(self, n: int, of: int, select: Select, embed: Embed) -> list[BranchOutcome]:
        """Return `n` of each request's `of` branches, in the order of their choice, or all in their own if `n` is `of`."""
        if n == of:
            return self.branches
        chosen: list[BranchOutcome] = []
        for first in range(0, len(self.branches), of):
            branches = self.branches[first : first + of]
            places, by = choose_places([branch.candidate for branch in branches], n, select, embed)
            chosen += [branches[place] for place in places]
            self.chosen_by = by
        return chosen


def choose_places(candidates: Sequence[Candidate], n: int, select: Select, embed: Embed) -> tuple[list[int], By | None]:
    """Return the places of `n` candidates in the order of their choice, computed in a thread, and by what they differ."""
    if select != "meaning":
        return in_thread(choose, candidates, n, select), None
    vectors = embed([candidate.text for candidate in candidates if not candidate.failed])
    by_text = {} if vectors is None else dict(zip((c.text for c in candidates if not c.failed), vectors, strict=True))

    def spread_of(kept: Sequence[Candidate], n: int) -> list[int]:
        own = None if vectors is None else [by_text[each.text] for each in kept]
        return Likeness.of([each.text for each in kept], own).spread(n, logprobs_of(kept))

    return in_thread(choose, candidates, n, select, spread_of), "words" if vectors is None else "meaning"


def ranking(branches: Sequence[BranchOutcome], call: Call, wanted: Rank, chosen_by: By | None = None) -> Ranking:
    """Return the keys that `rank` asks for: the ranking of an answer's branches, equally many of each of its commands."""
    said: Ranking = {} if chosen_by is None else {"chosen_by": chosen_by}
    if not wanted:
        return said
    each = len(branches) // len(call.commands)
    indices = [range(first, first + each) for first in range(0, len(branches), each)]
    prompts = [{index: branches[index].candidate for index in own} for own in indices]
    return {**ranked(prompts, call.commands, wanted, call.embed), **said}


def ranked(
    prompts: Sequence[Mapping[int, Candidate]], commands: Sequence[Generate], wanted: Rank, embed: Embed
) -> Ranking:
    """Return the ranking of the branches of each command, computed in a thread; of a prompt its text counts, not its ids."""
    before = None
    if wanted == "fresh":
        before = ["".join(part for part in command.prompt if isinstance(part, str)) for command in commands]
    found = in_thread(rank, prompts, wanted == "near", before)
    if wanted == "meaning":
        asked = []
        for branches in prompts:
            kept = [index for index in likeliest_first(branches) if not branches[index].failed]
            texts = [branches[index].text for index in kept]
            asked.append((kept, [branches[index] for index in kept], texts, embed(texts)))
        found["meaning"] = in_thread(
            lambda: meaning_of([(kept, own, Likeness.of(texts, vectors)) for kept, own, texts, vectors in asked])
        )
    return found


def gather(call: Call) -> Outcome:
    """Wait until every branch of the call has ended, close the call, and return its outcome.

    Raise the SRBError of a failed request, that of the first branch if every branch failed, or AnswerTooLarge if the
    answer exceeds `max_answer_bytes` of the settings.
    """
    firsts = first_choices(call)
    branches = [
        BranchOutcome(spec.seed, direction=spec.direction) for command in call.commands for spec in command.branches
    ]
    prompt_logprobs: dict[str, list[TokenProbs]] = {}
    times = PromptTimes()
    prompt_tokens = call.mailbox.prompt_tokens
    size = sum(echoed_bytes(command, prompt_tokens[command.request_id]) for command in call.commands)
    try:
        for event in _until_done(call.mailbox):
            if isinstance(event, Delta):
                size += weight(event)
                if size > call.max_answer_bytes:
                    raise grown_too_large(call.max_answer_bytes)
                branches[firsts[event.request_id] + event.index].add(event)
            elif isinstance(event, BranchEnded):
                branches[firsts[event.request_id] + event.index].ended = event
            elif isinstance(event, BranchAdded):
                if event.resumed:
                    branches[event.index].ended = None
                else:
                    branch = BranchOutcome(
                        event.seed, origin=event.origin, token=event.token, direction=event.direction
                    )
                    begun = event.begun
                    if event.tokens and event.origin is not None:  # of one request: others never explore
                        begun = replace(begun, probs=branches[event.origin].probs[: len(event.tokens)])
                    size += weight(begun)
                    branch.add(begun)
                    branches.append(branch)
            elif isinstance(event, Resting):
                call.leave_resting(event.done)
            elif isinstance(event, PromptDone):
                times.put(event)
            elif isinstance(event, PromptLogprobs):
                prompt_logprobs.setdefault(event.request_id, []).extend(event.probs)
            elif isinstance(event, Failed):
                raise event.error
    except SRBError as error:
        call.close(error)
        raise
    finally:
        call.close()
    errors = [branch.error for branch in branches if branch.error]
    if len(errors) == len(branches):
        raise errors[0]
    done = [event for event in call.mailbox.ended if isinstance(event, Done)]
    return Outcome(branches, done, prompt_logprobs, times)


def _until_done(mailbox: Mailbox) -> Iterator[Any]:
    while True:
        yield from mailbox.take()
        if mailbox.done:
            return


def first_choices(call: Call) -> dict[str, int]:
    """Map each request id of the call to the index of its first branch among all branches of the call."""
    firsts, count = {}, 0
    for command in call.commands:
        firsts[command.request_id] = count
        count += len(command.branches)
    return firsts


def usage(done: Iterable[Done]) -> Usage:
    """Return OpenAI's usage object, summed over the branches; a shared prompt counts once."""
    done = list(done)
    prompt = sum(event.prompt_tokens for event in done)
    completion = sum(event.completion_tokens for event in done)
    details: PromptTokensDetails = {"cached_tokens": sum(event.cached_tokens for event in done)}
    images, sounds = sum(event.image_tokens for event in done), sum(event.audio_tokens for event in done)
    if images or sounds:
        details |= {"text_tokens": prompt - images - sounds, "image_tokens": images, "audio_tokens": sounds}
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": details,
    }


def timings(done: Iterable[Done]) -> Timings:
    """Return llama-server's timings object; its counts and rates are over all branches together."""
    done = list(done)
    cached = sum(event.cached_tokens for event in done)
    prompt, predicted = sum(event.computed_tokens for event in done), sum(event.completion_tokens for event in done)
    prompt_ms, predicted_ms = sum(event.prompt_ms for event in done), sum(event.predicted_ms for event in done)
    found: Timings = {
        "cache_n": cached,
        "prompt_n": prompt,
        "prompt_ms": round(prompt_ms, 3),
        "prompt_per_token_ms": _ratio(prompt_ms, prompt),
        "prompt_per_second": _ratio(prompt * 1000, prompt_ms),
        "predicted_n": predicted,
        "predicted_ms": round(predicted_ms, 3),
        "predicted_per_token_ms": _ratio(predicted_ms, predicted),
        "predicted_per_second": _ratio(predicted * 1000, predicted_ms),
    }
    images, sounds = sum(event.image_tokens for event in done), sum(event.audio_tokens for event in done)
    if images or sounds:
        found |= {"image_n": images, "audio_n": sounds}
    if drafted := sum(event.drafted_tokens for event in done):
        found |= {"draft_n": drafted, "draft_n_accepted": sum(event.accepted_tokens for event in done)}
    return found


def _ratio(amount: float, by: float) -> float:
    return round(amount / by, 3) if by else 0.0
