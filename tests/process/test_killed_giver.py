"""A replica that is killed, or hangs, while it gives its texts to another one."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from srb.cluster import giving
from srb.cluster.door import texts_token
from srb.engine.process.text_folder import TextFolder
from srb.wire.commands import TakeTexts, digest_of
from tests.engine_helpers import solo
from tests.processes import DEADLINE, wait_for
from tests.unit.test_taking_texts import STORIES, computed, engine, run
from tests.unit.test_texts_elsewhere import MODEL, SOME, TOKEN, Leaving, known


def give_one_and_a_half(folder: Path) -> None:
    """Be a replica that leaves and gives a record, half of the next one, and then nothing: a process of its own."""
    first = engine(TextFolder(folder / "there", MODEL, 10**9))
    for story in SOME:
        computed(first, story)
    whole = giving._send
    sent = 0

    async def send(writer: asyncio.StreamWriter, path: Path, nbytes: int) -> None:
        nonlocal sent
        sent += 1
        if sent == 1:
            return await whole(writer, path, nbytes)
        await giving._say(writer, path.read_bytes()[: nbytes // 2])
        print("half", flush=True)
        await asyncio.Event().wait()

    giving._send = send
    print(Leaving(folder, first).port, flush=True)
    signal.pause()


@contextmanager
def ended(giver: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill a process at the end, which may sleep or be stopped: else a failure would wait for it."""
    try:
        yield
    finally:
        giver.kill()


@pytest.mark.smoke
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_giver_that_is_killed_or_hangs_while_it_gives_costs_no_more_than_what_has_not_come(
    tmp_path: Path, end: signal.Signals
) -> None:
    folder = TextFolder(tmp_path / "here", MODEL, 10**9)
    taker, prompt = engine(folder), STORIES["story 1"]
    run_it = f"from {__name__} import *; give_one_and_a_half(Path({str(tmp_path)!r}))"
    with subprocess.Popen([sys.executable, "-c", run_it], stdout=subprocess.PIPE) as giver, ended(giver):
        assert giver.stdout is not None
        door = "127.0.0.1", int(giver.stdout.readline()), texts_token(TOKEN)
        taker.engine.serve_query(TakeTexts("", (digest_of("story 1"),), door, is_coming=True))
        asked = taker.submit(prompt, max_tokens=6, ignore_eos=True, session="story 1")
        taker.step()
        assert giver.stdout.readline() == b"half\n"
        giver.send_signal(end)
        if end == signal.SIGSTOP:  # of a dead one the system tells
            taker.now += len(prompt) / 50  # seconds in which it would be computed; nothing is known of the pace yet

        def is_answered() -> bool:
            taker.step()
            taker.take(taker.engine.collect())
            return bool(taker.result(asked).terminal)

        wait_for(is_answered, "the request is answered")
    wait_for(lambda: taker.engine.collect() or not taker.engine._residency.stored.taking.num_going_on, "it is over")
    run(taker)
    assert taker.result(asked).texts[0] == solo(prompt, 1, 6, ignore_eos=True).texts[0]
    known_then = taker.result(asked).terminal[0].cached_tokens
    assert known_then == 0 if end == signal.SIGSTOP else 0 < known_then < len(prompt) - 1
    taker.engine.check_invariants()
    taker.engine.store_texts(float(DEADLINE))
    folder.close(DEADLINE)
    assert {path.name for path in folder.folder.iterdir()} == known(folder)
