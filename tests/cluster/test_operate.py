"""The work of `srb cluster` without a cluster: errors of Serve are told in a line, and do not end what tells them."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from srb.cluster.arguments import Arguments
from tests.processes import wait_for

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own, as it is imported


def test_deploy_tells_on_after_serve_could_not_say_how_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.serve.exceptions import RayServeException

    from srb.cluster import operate

    words = iter(["DEPLOYING", RayServeException("no client"), "RUNNING"])

    def word() -> str:
        if isinstance(each := next(words, "RUNNING"), Exception):
            raise each
        return str(each)

    told: list[str] = []
    monkeypatch.setattr(operate, "_PAUSE", 0.001)
    monkeypatch.setattr(operate, "_word", word)
    with operate._told(told.append):
        wait_for(lambda: told == ["DEPLOYING", "RUNNING"], "both are told")


def test_an_error_of_serve_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray import serve
    from ray.serve.exceptions import RayServeException

    from srb.cluster import operate

    def status() -> None:
        raise RayServeException("Client has already been shut down.\nAnd more")

    monkeypatch.setattr(operate, "connect", lambda address: None)
    monkeypatch.setattr(serve, "status", status)
    with pytest.raises(RuntimeError, match=r"^RayServeException: Client has already been shut down\.$"):
        operate.stop("auto")


TRACEBACK = """The deployment failed to start 3 times in a row. Error:
Traceback (most recent call last):
  File "replica.py", line 1, in __init__
srb.errors.ModelLoadFailed: /models/missing.gguf does not exist
"""


@pytest.mark.parametrize(
    ("status", "messages", "word"),
    [
        ("DEPLOY_FAILED", ("Failed to update the deployments ['engine'].", TRACEBACK), TRACEBACK.splitlines()[-1]),
        ("DEPLOY_FAILED", ("no such application", ""), "no such application"),
        ("DEPLOYING", ("", "1 replica waits for CPUs\nand more"), "1 replica waits for CPUs\nand more"),
    ],
)
def test_a_failure_is_told_by_the_line_that_has_the_reason(
    monkeypatch: pytest.MonkeyPatch, status: str, messages: tuple[str, str], word: str
) -> None:
    from ray import serve

    from srb.cluster import operate

    engine = SimpleNamespace(message=messages[1])
    application = SimpleNamespace(
        status=SimpleNamespace(value=status), message=messages[0], deployments={"engine": engine}
    )

    def run(*_: object, **__: object) -> None:
        raise RuntimeError("Deploying application srb failed: Failed to update the deployments ['engine'].")

    monkeypatch.setattr(serve, "status", lambda: SimpleNamespace(applications={"srb": application}))
    monkeypatch.setattr(serve, "start", lambda **_: None)
    monkeypatch.setattr(serve, "run", run)
    for name in ("connect", "build"):
        monkeypatch.setattr(operate, name, lambda _: None)
    assert operate._word() == f"{status}: {word}"
    if status == "DEPLOY_FAILED":
        with pytest.raises(RuntimeError) as error:
            operate.deploy("auto", Arguments(), lambda _: None)
        assert str(error.value) == f"DEPLOY_FAILED: {word}"


def test_serve_says_of_a_deployment_what_is_news_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from ray import serve
    from ray.serve._private import api

    from srb.cluster import operate

    running = object()
    monkeypatch.setattr(api, "_check_cached_client_alive", lambda: (running, None))
    monkeypatch.setattr(serve, "run", lambda *_, **__: api.logger.warning("Deployed app 'srb' successfully."))
    monkeypatch.setattr(operate, "_word", lambda: "RUNNING")
    for name in ("connect", "build"):
        monkeypatch.setattr(operate, name, lambda _: None)
    monkeypatch.setattr(api.logger, "propagate", True)
    caplog.set_level("INFO", api.logger.name)
    for _ in range(2):
        operate.deploy("auto", Arguments(), lambda _: None)
    said = {record.getMessage() for record in caplog.records if record.name == api.logger.name}
    assert said == {"Deployed app 'srb' successfully."}


def test_the_end_of_a_lost_raylets_log_is_not_in_ours(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    import ray
    from ray._private import worker

    from srb.cluster import ray_client

    told = (
        "Raylet is terminated. Last 20 lines of the Raylet logs:\n    \x1b[36m[state-dump] NodeManager:\x1b[0m\n    …\n"
    )
    errors = iter([told, "A worker died.", "Two lines,\nof which the second is known."])

    def poll() -> tuple[None, dict[str, object]]:
        if (error := next(errors, None)) is None:
            raise ConnectionError("the head is away")
        return None, {"job_id": None, "error_message": error}

    monkeypatch.setattr(worker, "print_to_stdstream", worker.print_to_stdstream)  # for other tests, afterwards
    monkeypatch.setattr(ray, "init", lambda **_: None)
    ray_client.connect("auto")
    subscriber = SimpleNamespace(subscribe=lambda: None, poll=poll)
    driver = SimpleNamespace(gcs_error_subscriber=subscriber, current_job_id=SimpleNamespace(binary=lambda: b"job"))
    worker.listen_error_messages(driver, threading.Event())
    lines = [record.getMessage() for record in caplog.records if record.name == "srb.cluster"]
    assert lines == [
        "Ray: Raylet is terminated. Last 20 lines of the Raylet logs:",
        "Ray: A worker died.",
        "Ray: Two lines,",
    ]
    assert "state-dump" not in "".join(capfd.readouterr())
