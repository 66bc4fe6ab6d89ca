"""Requests that are steered while they run, with only Python's standard library: fork, stop, extend, attach, list.

    python examples/steering.py "Once upon a time,"

Begins three branches, forks one in the middle and stops another, attaches as a second reader, lets a branch that has
reached its limit go on, and prints each branch at the end.
"""

from __future__ import annotations

import argparse
import json
import urllib.request
from collections.abc import Iterator
from typing import Any


class Server:
    def __init__(self, url: str) -> None:
        self._url = f"{url}/v1/srb/completions"

    def call(self, method: str, path: str = "", body: dict[str, Any] | None = None) -> Any:
        """Send a control; return its answer."""
        with urllib.request.urlopen(self._request(method, path, body)) as response:
            return json.load(response)

    def events(self, method: str, path: str = "", body: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the events of a stream as they arrive."""
        with urllib.request.urlopen(self._request(method, path, body)) as response:
            for line in response:
                if line.startswith(b"data: "):  # other lines are empty, or keep-alive comments
                    yield json.loads(line.removeprefix(b"data: "))

    def _request(self, method: str, path: str, body: dict[str, Any] | None) -> urllib.request.Request:
        data = None if body is None else json.dumps(body).encode()
        return urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"}, method=method)


def main() -> None:
    parser = argparse.ArgumentParser(description="Steer the branches of one prompt while they are written.")
    parser.add_argument("prompt", nargs="?", default="Once upon a time,")
    parser.add_argument("--tokens", type=int, default=60, help="most tokens of a branch (default: %(default)s)")
    parser.add_argument("--url", default="http://localhost:9090", help="address of the server (default: %(default)s)")
    options = parser.parse_args()

    server = Server(options.url)
    # With `linger` the request stays when its branches have ended or its reader has left, so that it can go on.
    body = {"prompt": options.prompt, "n": 3, "max_tokens": options.tokens, "ignore_eos": True, "linger": 60}
    stream = server.events("POST", body=body)
    request = "/" + next(stream)["id"]

    written: dict[int, str] = {}
    while len(written.get(0, "")) < 10:
        event = next(stream)
        if event["event"] == "stream":
            written[event["index"]] = written.get(event["index"], "") + event["text"]

    added = server.call("POST", f"{request}/branches", {"from": {"branch": 0, "character": 10}, "temperature": 1.2})
    print(f"forked branch 0 after {written[0][:10]!r} as branch {added['indices'][0]}")
    if server.call("GET", request)["branches"][1]["state"] != "ended":
        stopped = server.call("DELETE", f"{request}/branches/1")
        print(f"stopped branch 1 after {stopped['length']} tokens")
    stream.close()  # the request goes on without a reader

    reader = server.events("GET", f"{request}/events")
    snapshot = next(reader)
    texts = {branch["index"]: branch["text"] for branch in snapshot["branches"]}
    print(f"attached, with {sum(map(len, texts.values()))} characters so far")
    state, extended = snapshot["state"], False
    while state != "resting" or not extended:
        if state == "resting":
            length = server.call("PATCH", f"{request}/branches/2", {"max_tokens": 20})["length"]
            print(f"branch 2 goes on after {length} tokens")
            extended = True
        event = next(reader)
        state = {"branch": "running", "rest": "resting"}.get(event["event"], state)
        if event["event"] == "stream":
            texts[event["index"]] = texts.get(event["index"], "") + event["text"]
        elif event["event"] == "branch" and "text" in event:  # the beginning of a fork
            texts[event["index"]] = event["text"]
        elif event["event"] == "error":
            raise SystemExit(f"error from the server: {event['message']}")

    print(f"{len(server.call('GET')['completions'])} requests run or rest; this one ends now")
    server.call("DELETE", request)
    for index, text in sorted(texts.items()):
        print(f"--- branch {index}")
        print(options.prompt + text)


if __name__ == "__main__":
    main()
