"""A limit of requests that run at once, and the slots that clients of llama-server know them by."""

from __future__ import annotations

from typing import Any

import pytest

from srb.engine.fake import FakeModel
from srb.wire.commands import GetSlots, StateAction
from srb.wire.events import Progress, PromptDone
from tests.engine_helpers import Driver, Outcome, solo

PROMPT = "the old king said"


def slots_of(outcome: Outcome) -> list[int]:
    [done] = [event for event in outcome.events if isinstance(event, PromptDone)]
    return done.slots


def shown(driver: Driver) -> list[dict[str, Any]]:
    slots: list[dict[str, Any]] = driver.engine.serve_query(GetSlots("q"))
    return slots


def busy(driver: Driver) -> dict[int, dict[str, Any]]:
    return {slot["id"]: slot for slot in shown(driver) if slot["is_processing"]}


def running(driver: Driver) -> set[str]:
    """The requests that have begun and not ended."""
    requests = driver.engine._requests.active.values()
    return {request.request_id for request in requests if not request.is_waiting}


# ---- a limit of requests


@pytest.mark.parametrize("most", [1, 2, 3])
def test_so_many_requests_run_at_once_each_with_all_its_branches(most: int) -> None:
    driver = Driver(max_running=most)
    ids = [driver.submit(f"{PROMPT} {number}", n=3, seed=number, ignore_eos=True) for number in range(5)]
    seen = []
    while driver.engine.has_work:
        driver.step()
        seen.append(running(driver))
    assert max(map(len, seen)) == most
    assert seen[0] == set(ids[:most])
    driver.check_drained()
    for number, request_id in enumerate(ids):
        for index in range(3):
            alone = solo(f"{PROMPT} {number}", number + index, ignore_eos=True)
            assert driver.result(request_id).texts[index] == alone.texts[0]


def test_a_request_that_waits_begins_when_another_ends_and_not_before() -> None:
    driver = Driver(max_running=1)
    first, second = (driver.submit(PROMPT, max_tokens=4, ignore_eos=True) for _ in range(2))
    while not driver.result(first).terminal:
        assert running(driver) <= {first}
        assert driver.engine.stats()["requests_deferred"] >= 1
        driver.step()
    driver.step()
    assert running(driver) == {second}
    driver.run()


def test_a_request_that_is_cancelled_makes_room_for_the_next() -> None:
    driver = Driver(max_running=1)
    first, second = (driver.submit(PROMPT, max_tokens=50, ignore_eos=True) for _ in range(2))
    driver.step()
    driver.cancel(first)
    driver.step()
    assert running(driver) == {second}
    driver.run()


def test_with_as_many_requests_as_may_run_there_is_no_room_for_another() -> None:
    driver = Driver(max_running=2)
    assert driver.engine.stats()["branches_room"] > 0
    driver.submit(PROMPT, max_tokens=50, ignore_eos=True)
    driver.step()
    assert driver.engine.stats()["branches_room"] > 0
    driver.submit(PROMPT, max_tokens=50, ignore_eos=True)
    driver.step()
    assert driver.engine.stats()["branches_room"] == 0
    driver.run()


def test_a_request_dropped_for_lack_of_cells_runs_again_before_one_that_waits() -> None:
    driver = Driver(FakeModel(n_ctx=64, n_seq_max=6), max_running=2)
    ids = [driver.submit(f"{number} {PROMPT}", n=2, max_tokens=20, ignore_eos=True) for number in range(4)]
    driver.run()
    for number, request_id in enumerate(ids):
        assert driver.result(request_id).tokens[1] == solo(f"{number} {PROMPT}", 2, 20, ignore_eos=True).tokens[0]
    assert driver.engine.stats()["branches_paused_total"] > 0, "there was room for all; the test shows nothing"


# ---- slots of branches


def test_requests_that_run_together_have_slots_of_their_own() -> None:
    driver = Driver()
    first, second = (driver.submit(PROMPT, n=2, max_tokens=9, ignore_eos=True) for _ in range(2))
    for _ in range(4):
        driver.step()
    assert (slots_of(driver.result(first)), slots_of(driver.result(second))) == ([0, 1], [2, 3])
    assert {slot: entry["request_id"] for slot, entry in busy(driver).items()} == {
        0: first, 1: first, 2: second, 3: second,
    }  # fmt: skip
    driver.run()
    third = driver.submit(PROMPT, n=2)
    driver.run()
    assert slots_of(driver.result(third)) == [0, 1]


def test_the_first_branch_has_the_slot_that_its_request_asks_for() -> None:
    driver = Driver()
    pinned = driver.submit(PROMPT, n=3, id_slot=2, report_progress=True, max_tokens=9, ignore_eos=True)
    for _ in range(4):
        driver.step()
    outcome = driver.result(pinned)
    assert slots_of(outcome) == [2, 0, 1]
    assert {event.slot for event in outcome.events if isinstance(event, Progress)} == {2}
    assert {slot: entry["index"] for slot, entry in busy(driver).items()} == {2: 0, 0: 1, 1: 2}
    driver.run()


def test_others_leave_a_slot_alone_that_was_asked_for_until_it_is_erased() -> None:
    driver = Driver(FakeModel(n_seq_max=4))

    def slots(**options: Any) -> list[int]:
        request_id = driver.submit(PROMPT, max_tokens=2, **options)
        driver.run()
        return slots_of(driver.result(request_id))

    assert slots(id_slot=0) == [0]
    assert slots(n=3) == [1, 2, 3]
    assert slots(n=4) == [1, 2, 3, 0], "there is no other"
    assert slots(id_slot=6) == [2], "as llama-server, which counts on from 0"
    assert slots(n=3) == [0, 1, 3]
    driver.engine.submit(driver.engine.prepare(StateAction("s", "erase", "", 2)))
    assert slots(n=3) == [0, 1, 2]


def test_more_branches_than_slots_share_them() -> None:
    driver = Driver(FakeModel(n_seq_max=4))
    request_id = driver.submit(PROMPT, n=10, max_tokens=2)
    driver.run()
    assert slots_of(driver.result(request_id)) == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]


def test_two_requests_in_one_slot_are_both_shown() -> None:
    driver = Driver()
    ids = {driver.submit(f"{number} {PROMPT}", id_slot=3, max_tokens=9, ignore_eos=True) for number in range(2)}
    for _ in range(4):
        driver.step()
    assert {slot: entry["request_id"] in ids for slot, entry in busy(driver).items()} == {3: True, 0: True}
    driver.run()


# ---- slots of requests


def test_with_a_limit_a_slot_is_a_request() -> None:
    driver = Driver(max_running=3)
    ids = [driver.submit(f"{number} {PROMPT}", n=4, max_tokens=9, ignore_eos=True) for number in range(4)]
    driver.step()
    assert [slot["id"] for slot in shown(driver)] == [0, 1, 2]
    assert [slot["n_prompt_tokens"] for slot in shown(driver)] == [
        len(driver.model.tokenize(f"{number} {PROMPT}", True, True)) for number in range(3)
    ]
    for _ in range(6):
        driver.step()
    found = busy(driver)
    assert {slot: entry["request_id"] for slot, entry in found.items()} == dict(enumerate(ids[:3]))
    assert all(len(entry["branches"]) == 4 for entry in found.values())
    driver.run()
    assert [slots_of(driver.result(id_))[0] for id_ in ids] == [0, 1, 2, 0]
    assert all(slot >= 3 for id_ in ids for slot in slots_of(driver.result(id_))[1:]), "the others have no request's"
    assert not busy(driver)


def test_a_request_that_gives_way_to_one_that_is_read_gives_it_its_slot() -> None:
    driver = Driver(max_running=1)
    left = driver.submit(f"1 {PROMPT}", n=2, max_tokens=9, ignore_eos=True, linger=5.0)
    driver.step()
    driver.leave(left)
    read = driver.submit(f"2 {PROMPT}", n=2, max_tokens=9, ignore_eos=True)
    driver.step()
    driver.step()
    assert [entry["request_id"] for entry in busy(driver).values()] == [read]


def test_a_slot_tells_nothing_of_a_text() -> None:
    driver = Driver()
    biases = ((5, 1.0),)
    driver.submit(PROMPT, max_tokens=9, ignore_eos=True, grammar="", logit_bias=biases, dry_sequence_breakers=("x",))
    for _ in range(3):
        driver.step()
    [entry] = busy(driver).values()
    assert entry["sampling"]["ignore_eos"] is True
    assert not entry["sampling"].keys() & {
        "grammar", "json_schema", "logit_bias", "dry_sequence_breakers", "penalty_prompt",
    }  # fmt: skip
    assert "temperature" in entry["sampling"]
    driver.run()
