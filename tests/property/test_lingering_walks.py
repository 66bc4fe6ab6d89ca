"""Any requests without readers beside any with them: these take as many steps as alone, those all end, no text changes."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from srb.engine.fake import FakeModel
from tests.engine_helpers import Driver, solo
from tests.walks import examples


@dataclass(frozen=True)
class Asked:
    prompt: tuple[int, ...]
    n: int
    max_tokens: int


MOST_STEPS = 2000  # far more than all tokens of a walk

PROMPTS = st.lists(st.integers(0, 40), min_size=1, max_size=20).map(tuple)
LEFT = st.builds(Asked, PROMPTS, st.integers(1, 8), st.integers(1, 25))
READ = st.builds(Asked, PROMPTS, st.integers(1, 6), st.integers(1, 12))


def submit(driver: Driver, asked: Asked, seed: int, **options: float) -> str:
    return driver.submit(asked.prompt, asked.n, seed, asked.max_tokens, ignore_eos=True, **options)


def steps_until_read(driver: Driver, read: list[Asked]) -> tuple[int, list[str]]:
    """Submit requests one after another, as a client does that waits for its answers; return the steps and the ids."""
    steps, ids = 0, []
    for seed, asked in enumerate(read, 100):
        ids.append(submit(driver, asked, seed))
        while not driver.result(ids[-1]).terminal:
            driver.step()
            steps += 1
            assert steps < MOST_STEPS, f"{driver.engine.stats()}"
    return steps, ids


@settings(max_examples=examples(25), deadline=None)
@given(
    left=st.lists(LEFT, max_size=6),
    read=st.lists(READ, min_size=1, max_size=3),
    n_seq_max=st.integers(2, 16),
    n_ctx=st.sampled_from([256, 400, 2048]),
    max_running=st.sampled_from([0, 0, 1, 3]),
    before=st.integers(0, 20),
)
def test_requests_with_readers_take_their_own_steps_and_the_others_end_afterwards(
    left: list[Asked], read: list[Asked], n_seq_max: int, n_ctx: int, max_running: int, before: int
) -> None:
    alone = Driver(FakeModel(n_seq_max=n_seq_max, n_ctx=n_ctx), max_running=max_running)
    needed, _ = steps_until_read(alone, read)

    driver = Driver(FakeModel(n_seq_max=n_seq_max, n_ctx=n_ctx), max_running=max_running)
    unread = [submit(driver, asked, seed, linger=10.0**6) for seed, asked in enumerate(left)]
    for _ in range(before):
        driver.step()
    for request_id in unread:
        driver.leave(request_id)
    steps, ids = steps_until_read(driver, read)
    # In the worst case each of them gives way in a step of its own for each request that comes, and the steps that send
    # first tokens early fall elsewhere.
    assert steps <= needed + (len(left) + 3) * len(read)
    driver.run()
    assert all(driver.result(request_id).rests for request_id in unread)

    everything = [*enumerate(zip(left, unread, strict=True)), *enumerate(zip(read, ids, strict=True), 100)]
    for seed, (asked, request_id) in everything:
        assert len(driver.result(request_id).ends) == asked.n
        for end in driver.result(request_id).ends.values():
            assert end.truncated or end.length == asked.max_tokens
        index = asked.n - 1  # the last one gives way first
        linger = driver.request(request_id).linger if request_id in unread else 0.0  # which holds back a cut character
        length = driver.result(request_id).ends[index].length
        expected = solo(asked.prompt, seed + index, length, ignore_eos=True, linger=linger)
        assert driver.result(request_id).texts[index] == expected.texts[0]
