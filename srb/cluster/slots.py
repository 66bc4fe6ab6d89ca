"""Actions on the slots of a cluster: each replica numbers its own, and the text of slot k is the newest of all replicas'."""

from typing import Any

from srb.cluster.members import Member, Members, ask_all, no_replica, silence_of
from srb.cluster.routing import choose, slot_marks
from srb.errors import EngineLoading, EngineRestarted, InvalidRequest, ShuttingDown, SRBError
from srb.wire.commands import GetSlotTime, StateAction
from srb.wire.events import Rejected, Reply

_LOOK_SECONDS = 10.0  # for a replica's answer between two steps
_ACT_SECONDS = 600.0  # for a state to be written or read, as a web worker waits
_GONE = (EngineLoading, EngineRestarted, ShuttingDown)  # refusals of a replica whose slots have no texts any more


async def act_on_state(members: Members, command: StateAction) -> Reply | Rejected:
    """Return the answer to a StateAction."""
    act = {"restore": _restore, "erase": _erase}.get(command.action, _save)
    try:
        return Reply(command.request_id, await act(members, command))
    except SRBError as error:
        return Rejected.of(command.request_id, error)


async def _save(members: Members, command: StateAction) -> Any:
    newest, *_ = await _having(members, command.slot)
    return await newest.ask(command, _ACT_SECONDS)


async def _erase(members: Members, command: StateAction) -> Any:
    """Erase the slot's text. The other replicas' older texts are others' stories: they stay computed, without the slot."""
    newest, *others = await _having(members, command.slot)
    await ask_all(others, StateAction("", "forget", "", command.slot), _LOOK_SECONDS)
    return await newest.ask(command, _ACT_SECONDS)


async def _having(members: Members, slot: int) -> list[Member]:
    """Return the replicas with a text in a slot, newest text first; any one if there is no text, for its refusal.

    Raise the error of a replica that does not say whether it has a newer one.
    """
    asked = members.reachable
    if not asked:
        raise no_replica()
    answers = await ask_all(asked, GetSlotTime("", slot), _LOOK_SECONDS)
    if silence := silence_of(answers):
        raise silence
    times = {name: since for name, since in answers.items() if since is not None and not isinstance(since, SRBError)}
    having = [each for each in asked if each.name in times]
    return sorted(having, key=lambda each: times[each.name], reverse=True) or asked[:1]


async def _restore(members: Members, command: StateAction) -> Any:
    """Restore a state where requests that name it go, or else where it can be: not all replicas have all states."""
    first = choose(members.affinity, command, members.avoided(set()))
    refusal: SRBError = no_replica()
    for member in sorted(members.ready, key=lambda each: each.name != first):
        try:
            value = await member.ask(command, _ACT_SECONDS)
        except InvalidRequest as error:
            refusal = error
        except _GONE:
            continue
        else:
            members.affinity.know(slot_marks(command.slot), member.name)
            return value
    raise refusal
