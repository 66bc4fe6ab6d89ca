"""The way of each command: to one replica, to the one that has a request, or to all; and one answer made of several.

Pure: no I/O and no clock.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import Enum, auto
from typing import Any

from srb.cluster.affinity import Affinity, Text
from srb.cluster.handover import Story
from srb.cluster.marks import Mark, Marks, NamedMark, with_media
from srb.cluster.members import no_replica
from srb.cluster.split import unite_listed
from srb.errors import SRBError
from srb.wire.commands import (
    AddBranches,
    Attach,
    ChangeBranch,
    Command,
    CountTokens,
    Detokenize,
    Embed,
    EndReasoning,
    ForgetTexts,
    Generate,
    GetAdapters,
    GetRequest,
    GetSlots,
    GetSlotTime,
    GetStats,
    GetTexts,
    ListRequests,
    Rerank,
    SetAdapters,
    StateAction,
    StopBranches,
    TakeTexts,
    Tokenize,
    digest_of,
)

_LARGEST = {"n_tokens_max"}  # of the stats: all others are sums


class Way(Enum):
    """The way that a command takes."""

    TEXT = auto()  # to the replica that has computed its beginning
    ANY = auto()  # to the replica that has least to do
    HOME = auto()  # to the replica that has its target
    STATE = auto()  # to the replica that has its slot's text, or takes its state
    ALL = auto()  # to every replica; the answers become one


_WAYS: dict[type, Way] = {
    Generate: Way.TEXT,
    StateAction: Way.STATE,
    # Those of texts are replicas' and the bridge's own; a worker sends none.
    **dict.fromkeys((Tokenize, CountTokens, Detokenize, Embed, Rerank, GetAdapters, GetTexts, TakeTexts), Way.ANY),
    **dict.fromkeys((Attach, GetRequest, StopBranches, EndReasoning, ChangeBranch, AddBranches), Way.HOME),
    **dict.fromkeys((GetStats, GetSlots, GetSlotTime, ListRequests, SetAdapters, ForgetTexts), Way.ALL),
}


def way_of(command: Command) -> Way:
    """Return the way of any command but Cancel, which follows its request."""
    return _WAYS[type(command)]


def may_move(command: Command) -> bool:
    """Whether a command that a replica has not answered may be given to another."""
    return isinstance(command, (Generate, Tokenize, CountTokens, Detokenize, Embed, Rerank, GetAdapters))


def text_of(command: Generate | StateAction) -> Text:
    """Return what a command's replica is chosen by: a name that the client gave goes before the text.

    Sessions and texts are their owner's; named states are everybody's.
    """
    if isinstance(command, StateAction):
        return NamedMark("state", command.name)
    if command.session:
        return NamedMark("session", command.owner, command.session, prompt=command.prompt)
    if command.state:
        return NamedMark("state", command.state, prompt=command.prompt)
    prompt = with_media(command.prompt, command.media) if command.media else command.prompt
    return Marks(prompt, _sharing(command))


def _sharing(command: Generate) -> str:
    """Return the key among whose requests texts count, and their salt: a replica that has the text of others has no use."""
    return "\0".join(filter(None, (command.key, command.cache_salt)))


def choose(affinity: Affinity, command: Generate | StateAction, exclude: Collection[str] = ()) -> str | None:
    """Return the replica for a request, or to restore a state, beside `exclude`; None if there is none.

    A request for a slot whose text no replica knows goes where a state was restored into that slot.
    """
    if isinstance(command, StateAction):
        return affinity.choose(text_of(command), exclude)
    is_named = command.id_slot < 0 or command.session or command.state
    slot = None if is_named else slot_marks(command.id_slot)[0]
    return affinity.choose(text_of(command), exclude, len(command.branches), slot)


def story_of(affinity: Affinity, command: Generate) -> Story | None:
    """Return a request's story and who has had it; None without a session."""
    if not command.session:
        return None
    mark = text_of(command).coarse[0]
    return Story(mark, digest_of(command.session), affinity.holders(mark))


def slot_marks(slot: int) -> list[Mark]:
    """Return the mark of a slot, which the replica has that restored a state into it."""
    return NamedMark("slot", str(slot)).coarse


def merge(command: Command, answers: Mapping[str, Any]) -> Any:
    """Return one value from the replicas' values.

    Raise the SRBError of the first if there is no value; and of any that has refused what all should do.
    """
    values = {name: answer for name, answer in answers.items() if not isinstance(answer, SRBError)}
    if not values:
        raise next(iter(answers.values()), no_replica())
    if isinstance(command, SetAdapters) and len(values) < len(answers):
        raise next(answer for answer in answers.values() if isinstance(answer, SRBError))
    match command:
        case GetSlots():
            return [{**slot, "replica": name} for name, slots in values.items() for slot in slots]
        case ListRequests():
            return unite_listed(request for requests in values.values() for request in requests)
        case _:
            return next(iter(values.values()))


def sum_stats(stats: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the cluster's numbers."""
    total: dict[str, float] = {}
    for each in stats:
        for name, value in each.items():
            before = total.get(name, 0)
            total[name] = max(before, value) if name in _LARGEST else before + value
    return total
