"""Large bodies at once: a worker receives as many as it has memory for, and gives the memory back."""

from __future__ import annotations

from typing import Any

import gevent
import orjson
import pytest
from gevent.event import Event

from srb.config.settings import Settings
from srb.errors import BodiesFull
from srb.web import app as app_module
from srb.web.app import Application, create_app
from srb.web.loop import memory
from srb.web.loop.memory import FREE, LARGE, BodyBudget, Trimmer
from tests.scripted import ScriptedClient

BUDGET = 2**20
ENOUGH = orjson.dumps({"content": "x" * (BUDGET // 2)})


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Application:
    made = create_app(Settings(), ScriptedClient(Settings()))
    made.config["BODY_BUDGET"] = BodyBudget(BUDGET)
    return made


class Upload:
    """A body that arrives as far as the test says."""

    _has_left = False

    def __init__(self, app: Application, data: bytes, *, arrives: int, announced: bool = True) -> None:
        self._data, self._left = data, arrives
        self._more = Event()
        length = {"CONTENT_LENGTH": str(len(data))} if announced else {"HTTP_TRANSFER_ENCODING": "chunked"}
        self._environ = {"wsgi.input": self, **length, "wsgi.input_terminated": True}
        self._asking = gevent.spawn(self._ask, app)
        gevent.idle()

    def _ask(self, app: Application) -> Any:
        return app.test_client().post("/tokenize", environ_overrides=self._environ)

    def read(self, size: int = -1) -> bytes:
        while not self._left and self._data:
            self._more.wait()
        if self._has_left:
            raise ConnectionResetError
        size = min(size, self._left)
        piece, self._data = self._data[:size], self._data[size:]
        self._left -= len(piece)
        return piece

    def arrive(self) -> None:
        self._left = 2**62
        self._more.set()

    def leave(self) -> int:
        """Reset the connection; return the status of the answer that nobody reads."""
        self._has_left = True
        status: int = self.answer().status_code
        return status

    @property
    def is_waiting(self) -> bool:
        return not self._asking.ready()

    def answer(self) -> Any:
        self.arrive()
        return self._asking.get()


def test_beyond_the_budget_a_body_is_refused_before_it_is_read_and_later_taken(app: Application) -> None:
    held = [Upload(app, ENOUGH, arrives=len(ENOUGH) - 1), Upload(app, ENOUGH, arrives=len(ENOUGH) - 1)]
    assert all(upload.is_waiting for upload in held)
    refused = Upload(app, ENOUGH, arrives=0)
    assert not refused.is_waiting
    response = refused.answer()
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    assert response.json["error"]["type"] == "unavailable_error"
    assert "max_body_bytes" in response.json["error"]["message"]
    assert [upload.answer().status_code for upload in held] == [200, 200]
    assert Upload(app, ENOUGH, arrives=0).answer().status_code == 200


@pytest.mark.parametrize("announced", [True, False])
def test_what_arrives_counts_and_not_what_is_announced(app: Application, announced: bool) -> None:
    idle = [Upload(app, ENOUGH, arrives=0, announced=announced) for _ in range(20)]
    assert all(upload.is_waiting for upload in idle)
    assert Upload(app, ENOUGH, arrives=0).answer().status_code == 200
    for upload in idle:
        upload.arrive()
    statuses = [upload.answer().status_code for upload in idle]
    assert set(statuses) <= {200, 503}
    assert 200 in statuses


def test_a_small_body_has_room_in_any_case(app: Application) -> None:
    held = [Upload(app, ENOUGH, arrives=len(ENOUGH) - 1), Upload(app, ENOUGH, arrives=len(ENOUGH) - 1)]
    small = orjson.dumps({"content": "x" * (FREE - 100)})
    assert Upload(app, small, arrives=0).answer().status_code == 200
    assert Upload(app, small, arrives=0, announced=False).answer().status_code == 200
    assert [upload.answer().status_code for upload in held] == [200, 200]


def test_one_body_alone_may_be_larger_than_the_budget(app: Application) -> None:
    large = orjson.dumps({"content": "x" * (2 * BUDGET)})
    assert Upload(app, large, arrives=0).answer().status_code == 200


def test_a_body_that_breaks_off_gives_its_room_back(app: Application) -> None:
    for _ in range(5):
        assert Upload(app, ENOUGH, arrives=len(ENOUGH) - 1).leave() == 400
    held = [Upload(app, ENOUGH, arrives=len(ENOUGH) - 1), Upload(app, ENOUGH, arrives=len(ENOUGH) - 1)]
    assert [upload.answer().status_code for upload in held] == [200, 200]


def test_a_body_that_grows_beyond_the_budget_is_refused_and_the_others_go_on() -> None:
    budget = BodyBudget(BUDGET)
    with budget.receiving(0) as first:
        first(BUDGET // 2)
        with pytest.raises(BodiesFull), budget.receiving(0) as second:  # noqa: PT012 it raises where it grows
            for _ in range(100):
                second(FREE)
        first(BUDGET // 2)
    with budget.receiving(10 * BUDGET) as alone:
        alone(10 * BUDGET)


# The way back ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def trims(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    trims: list[str] = []
    monkeypatch.setattr(memory, "PAUSE", 0)
    monkeypatch.setattr(app_module, "Trimmer", lambda: Trimmer(lambda: trims.append("trim")))
    return trims


@pytest.mark.parametrize(
    ("data", "status", "times"),
    [
        (orjson.dumps({"content": "x" * LARGE}), 200, 1),
        (b'{"content": [' + b"[]," * LARGE + b"[]]}", 400, 1),
        (b"x" * 2 * LARGE, 400, 1),
        (orjson.dumps({"content": "x" * (LARGE // 2)}), 200, 0),
        (b"{}", 200, 0),
    ],
    ids=["taken", "refused", "malformed", "of middle size", "small"],
)
def test_memory_goes_back_once_after_large_bodies(trims: list[str], data: bytes, status: int, times: int) -> None:
    http = create_app(Settings(), ScriptedClient(Settings())).test_client()
    for _ in range(3):
        assert http.post("/tokenize", data=data).status_code == status
    gevent.idle()
    gevent.idle()
    assert len(trims) <= 3 * times
    assert bool(trims) is bool(times)


def test_several_large_bodies_of_a_moment_are_one_trim() -> None:
    trims: list[str] = []
    trimmer = Trimmer(lambda: trims.append("trim"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "PAUSE", 0)
        for _ in range(5):
            trimmer.note(2 * LARGE)
        while not trims:
            gevent.sleep(0)
        gevent.idle()
        assert trims == ["trim"]
        trimmer.note(2 * LARGE)
        while len(trims) == 1:
            gevent.sleep(0)


def test_memory_goes_back_also_of_a_body_that_broke_off(trims: list[str]) -> None:
    app = create_app(Settings(), ScriptedClient(Settings()))
    assert Upload(app, b" " * 3 * LARGE, arrives=2 * LARGE).leave() == 400
    while not trims:
        gevent.sleep(0)
