"""A session of Claude Code or of Codex with a server of SmolLM2: run in a network of its own, so that nothing else answers.

SmolLM2 is too small to call tools by itself. So a proxy between the two makes a turn's first request one whose call is
forced: the server writes the call, the program makes it, and the program's next request has what the tool has answered.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson

from tests.namespaces import set_loopback
from tests.processes import ROOT
from tests.servers import Server, free_port
from tools.real_models import path_of

PROGRAMS = ROOT / "build" / "agents" / "node_modules" / ".bin"
SECONDS = 300  # for a turn, on a machine that does much else
NOTE = "The lighthouse is green"
STOPS = [".", ",", " is", " of"]  # a model of this size may go round in circles
MOST_TOKENS = 500


@dataclass
class Exchange:
    """A request that has a body, and the server's answer to it."""

    asked: dict[str, Any]
    status: int
    answer: bytes

    @property
    def events(self) -> list[dict[str, Any]]:
        lines = self.answer.splitlines()
        return [orjson.loads(line.removeprefix(b"data: ")) for line in lines if line.startswith(b"data: {")]


@dataclass
class Proxy:
    """Everything that a program asks of the server at `port`, and what `steer` has made of its requests."""

    port: int
    steer: Callable[[dict[str, Any], bool], None]
    calls: bool = False  # whether the next request's call is forced
    exchanges: list[Exchange] = field(default_factory=list)
    others: list[int] = field(default_factory=list)  # statuses of requests without a body

    @contextmanager
    def listening(self) -> Iterator[str]:
        """Listen while the block inside runs, which gets the proxy's URL."""
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                proxy.others.append(self._forward(None)[0])

            def do_HEAD(self) -> None:
                self.do_GET()

            def do_POST(self) -> None:
                asked = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
                calls, proxy.calls = proxy.calls, False
                proxy.steer(asked, calls)
                proxy.exchanges.append(Exchange(asked, *self._forward(orjson.dumps(asked))))

            def _forward(self, body: bytes | None) -> tuple[int, bytes]:
                server = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=SECONDS)
                own = ("host", "content-length")
                headers = {name: value for name, value in self.headers.items() if name.lower() not in own}
                server.request(self.command, self.path, body, headers)
                answer = server.getresponse()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name not in ("Connection", "Transfer-Encoding"):  # the end of the connection ends the answer
                        self.send_header(name, value)
                self.end_headers()
                pieces = []
                while piece := answer.read1():
                    pieces.append(piece)
                    self.wfile.write(piece)
                server.close()
                return answer.status, b"".join(pieces)

            def log_message(self, *_: object) -> None:
                """Be quiet: the exchanges tell everything."""

        with ThreadingHTTPServer(("127.0.0.1", free_port()), Handler) as listener:
            threading.Thread(target=listener.serve_forever).start()
            try:
                yield f"http://127.0.0.1:{listener.server_port}"
            finally:
                listener.shutdown()


class Agent:
    """A program that answers questions one after the other, and what its requests and the server's answers look like."""

    def __init__(self, url: str, folder: Path) -> None:
        self.folder = folder
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        self.prepare(url)

    def prepare(self, url: str) -> None:
        raise NotImplementedError

    def ask(self, question: str, turn: int) -> str:
        """Ask a question, from the second turn on in the same conversation; return the text that is printed."""
        raise NotImplementedError

    @staticmethod
    def steer(asked: dict[str, Any], calls: bool) -> None:
        """Bound the text that a request asks for, or make it ask for the call that reads the note."""
        raise NotImplementedError

    @staticmethod
    def text(exchange: Exchange) -> str:
        raise NotImplementedError

    def run(self, *words: str) -> list[dict[str, Any]]:
        """Run the program to its end; return the lines of JSON that it prints."""
        done = subprocess.run(words, cwd=self.folder, env=self.environ, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=SECONDS, check=False)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return [orjson.loads(line) for line in done.stdout.splitlines()]


class ClaudeCode(Agent):
    program = PROGRAMS / "claude"

    def prepare(self, url: str) -> None:
        self.environ |= {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_AUTH_TOKEN": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(MOST_TOKENS),
        }

    def ask(self, question: str, turn: int) -> str:
        further = ["--continue"] if turn else []
        words = ["--tools", "Read", "--model", "smollm2", "--output-format", "json"]  # all its tools have 29,000 tokens
        [result] = self.run(str(self.program), "-p", question, *further, *words)
        assert not result["is_error"], result
        return str(result["result"])

    @staticmethod
    def steer(asked: dict[str, Any], calls: bool) -> None:
        asked["temperature"] = 0
        if not calls:
            asked["stop_sequences"] = STOPS
            return
        [tool] = asked["tools"]
        tool["input_schema"] = just("file_path", "note")
        asked["tool_choice"] = {"type": "tool", "name": tool["name"]}

    @staticmethod
    def text(exchange: Exchange) -> str:
        return "".join(
            event["delta"].get("text", "") for event in exchange.events if event["type"] == "content_block_delta"
        )


class Codex(Agent):
    program = PROGRAMS / "codex"
    CONFIG = """
        model = "smollm2"
        model_provider = "srb"
        model_instructions_file = "instructions"
        web_search = "disabled"
        [features]
        goals = false
        [agents]
        enabled = false
        [model_providers.srb]
        name = "SRB"
        base_url = "{url}/v1"
        wire_api = "responses"
    """

    def prepare(self, url: str) -> None:
        folder = self.folder / ".codex"
        folder.mkdir()
        (folder / "instructions").write_text("Answer in few words.")  # its own have 3,500 tokens
        (folder / "config.toml").write_text(self.CONFIG.format(url=url))

    def ask(self, question: str, turn: int) -> str:
        further = ["resume", "--last"] if turn else ["--sandbox", "read-only"]
        events = self.run(str(self.program), "exec", *further, "--json", "--skip-git-repo-check", question)
        assert events[-1]["type"] == "turn.completed", events
        items = [event["item"] for event in events if event["type"] == "item.completed"]
        return str([item["text"] for item in items if item["type"] == "agent_message"][-1])

    @staticmethod
    def steer(asked: dict[str, Any], calls: bool) -> None:
        asked["temperature"] = 0
        if not calls:
            asked |= {"stop": STOPS, "max_output_tokens": MOST_TOKENS}
            return
        [tool] = [tool for tool in asked["tools"] if tool.get("name") == "exec_command"]
        tool["parameters"] = just("cmd", "cat note")
        asked["tool_choice"] = {"type": "function", "name": tool["name"]}

    @staticmethod
    def text(exchange: Exchange) -> str:
        return "".join(event["delta"] for event in exchange.events if event["type"] == "response.output_text.delta")


AGENTS: dict[str, type[ClaudeCode | Codex]] = {"claude-code": ClaudeCode, "codex": Codex}


def just(name: str, value: str) -> dict[str, Any]:
    """Return the schema of arguments that can have one value only."""
    return {"type": "object", "properties": {name: {"const": value}}, "required": [name], "additionalProperties": False}


def main(name: str, folder: Path) -> None:
    """Raise AssertionError where a turn of the session fails, or does not show what the server has written."""
    set_loopback(True)
    home = folder / "home"
    home.mkdir()
    (home / "note").write_text(NOTE)
    model = path_of("smollm2")
    with Server(folder, model=model, alias="smollm2", n_ctx=8192, stories="") as server:
        proxy = Proxy(server.start().port, AGENTS[name].steer)
        with proxy.listening() as url:
            agent = AGENTS[name](url, home)
            for turn, question in enumerate(("Name a colour.", "What does the note say?", "Name another colour.")):
                before = len(proxy.exchanges)
                proxy.calls = turn == 1
                printed = agent.ask(question, turn)
                asked = proxy.exchanges[before:]
                assert len(asked) == (2 if turn == 1 else 1), asked
                assert printed == agent.text(asked[-1]).strip() != "", asked
                assert question in str(asked[-1].asked)
                assert NOTE not in str(asked[0].asked) or turn == 2, "the note is not known before it is read"
                assert NOTE in str(asked[-1].asked) or turn == 0, "what a call has answered goes into the conversation"
        statuses = [exchange.status for exchange in proxy.exchanges] + proxy.others
        assert set(statuses) == {200}, statuses
        assert "Traceback" not in server.logs, server.logs


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
