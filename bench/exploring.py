"""`explore` beside a llama-server that gives the same leaves, and beside the least that this machine needs for them.

A llama-server is asked in two ways: leaf by leaf by a client that is told where each leaf forks, and node by node by a
client that has to find it out, as programs do that explore over its API. The least are llama.cpp's decodes alone, without
a server, sampling or forks: of the tree level by level, and of the same tokens one by one.
"""

from __future__ import annotations

import os
import statistics
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from bench.scenarios import REST_SECONDS
from srb.bench.client import TIMEOUT_SECONDS
from srb.config.settings import Settings
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Batch, DecodeStatus

LEAVES = 64
PROMPT = [1] + [400 + (i * 7919) % 3000 for i in range(40)]
_OF_PROMPT = LEAVES  # sequence that holds the prompt alone


@dataclass(frozen=True)
class Leaf:
    """A branch of a request that explored: its tokens, of which its origin has the first `at`."""

    tokens: tuple[int, ...]
    at: int

    @property
    def num_given(self) -> int:
        """How many tokens tell the leaf from its origin."""
        return self.at + 1


def explore(url: str, depth: int) -> list[Leaf]:
    """Return the 64 likeliest leaves."""
    asked = {"cutoff": 1e-4, "max_branches": LEAVES, "depth": depth}
    body = {"prompt": PROMPT, "explore": asked, "ignore_eos": True, "stream": False, "return_tokens": True}
    said = _answer(url, "/v1/srb/completions", body)
    leaves = [Leaf(tuple(each["tokens"]), each.get("from", {}).get("token", 0)) for each in said["completions"]]
    if len(leaves) != LEAVES:
        raise RuntimeError(f"the model has {len(leaves)} leaves instead of {LEAVES}")
    return leaves


def leaf_by_leaf(peer: str, leaves: list[Leaf], depth: int) -> int:
    """Have a llama-server complete each leaf after its fork; return how many leaves are the same.

    The prompt is in its cache. A leaf that ends at its fork is complete without a request.
    """
    same = 0
    for leaf in leaves:
        given = list(leaf.tokens[: leaf.num_given])
        if len(given) < depth:
            given += _ask(peer, given, n_predict=depth - len(given), return_tokens=True)["tokens"]
        same += tuple(given) == leaf.tokens
    return same


def node_by_node(peer: str, leaves: list[Leaf], depth: int) -> int:
    """Ask a llama-server for the likely tokens at each node above the leaves; return how many leaves it leads to.

    Its cache has the path of the node asked before, whose neighbours follow: the order that suits it best.
    """
    paths = {leaf.tokens[:at] for leaf in leaves for at in range(depth)}
    found = set()
    for path in sorted(paths):
        said = _ask(peer, list(path), n_predict=1, n_probs=LEAVES)
        found |= {(*path, each["id"]) for each in said["completion_probabilities"][0]["top_logprobs"]}
    return sum(all(leaf.tokens[: at + 1] in found for at in range(depth)) for leaf in leaves)


def _ask(peer: str, path: list[int], **options: Any) -> Any:
    body = {"prompt": PROMPT + path, "temperature": 0, "ignore_eos": True, "cache_prompt": True}
    return _answer(peer, "/completion", body | options)


def _answer(url: str, path: str, body: dict[str, Any]) -> Any:
    """Return the JSON of an answer that is not streamed."""
    request = urllib.request.Request(url + path, orjson.dumps(body), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
        return orjson.loads(response.read())


class Bare:
    """A model without a server, for the decodes of a tree alone."""

    def __init__(self, path: Path) -> None:
        settings = {"SRB_MODEL": str(path.absolute()), "SRB_N_CTX": "16384", "SRB_N_SEQ_MAX": str(LEAVES + 1)}
        self._model = LlamaModel.load(Settings.load(environ={**os.environ, **settings}))
        self._decode([(_OF_PROMPT, place, token) for place, token in enumerate(PROMPT)])

    def by_level(self, leaves: list[Leaf]) -> float:
        """Return the seconds of one decode for each level of the tree; the leaves themselves need none."""
        self._fork()
        seconds = 0.0
        for level in range(len(leaves[0].tokens) - 1):
            owners: dict[tuple[int, ...], int] = {}  # the first sequence of each node
            for seq_id, leaf in enumerate(leaves):
                owners.setdefault(leaf.tokens[: level + 1], seq_id)
            place = len(PROMPT) + level
            seconds += self._decode([(seq_id, place, path[-1]) for path, seq_id in owners.items()])
            for seq_id, leaf in enumerate(leaves):
                if (owner := owners[leaf.tokens[: level + 1]]) != seq_id:
                    self._model.splice(owner, seq_id, place + 1)
        return seconds

    def one_by_one(self, leaves: list[Leaf]) -> float:
        """Return the seconds of one decode for each node of the tree above the leaves."""
        self._fork()
        seconds, known = 0.0, dict[tuple[int, ...], int]()
        for seq_id, leaf in enumerate(leaves):
            for level in range(len(leaf.tokens) - 1):
                path, place = leaf.tokens[: level + 1], len(PROMPT) + level
                if path in known:
                    self._model.splice(known[path], seq_id, place + 1)
                else:
                    known[path] = seq_id
                    seconds += self._decode([(seq_id, place, path[-1])])
        return seconds

    def close(self) -> None:
        self._model.close()

    def _fork(self) -> None:
        for seq_id in range(LEAVES):
            self._model.remove(seq_id)
            self._model.fork(_OF_PROMPT, seq_id)
        self._model.flush()

    def _decode(self, tokens: list[tuple[int, int, int]]) -> float:
        """Decode (sequence, position, token) at once; return the seconds."""
        batch = Batch()
        for seq_id, place, token in tokens:
            batch.add(seq_id, place, [token], want_logits=True)
        began = time.perf_counter()
        if self._model.decode(batch) is not DecodeStatus.OK:
            raise RuntimeError("the decode failed")
        return time.perf_counter() - began


def compare(url: str, peer: str, bare: Bare, depth: int, rounds: int) -> None:
    """Print the times of `explore`, of both ways to ask a llama-server, and of the decodes alone, in turns."""
    leaves = explore(url, depth)
    said: dict[str, int] = {}

    def asked(name: str, ask: Callable[[str, list[Leaf], int], int]) -> float:
        began = time.perf_counter()
        said[name] = ask(peer, leaves, depth)
        return time.perf_counter() - began

    def explored() -> float:
        began = time.perf_counter()
        explore(url, depth)
        return time.perf_counter() - began

    ways = {
        "explore": explored,
        "told": lambda: asked("told", leaf_by_leaf),
        "found": lambda: asked("found", node_by_node),
        "levels": lambda: bare.by_level(leaves),
        "single": lambda: bare.one_by_one(leaves),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):
        for name, run in ways.items():
            time.sleep(REST_SECONDS)
            times[name].append(run())
    for each in times.values():
        del each[0]  # warms up
    nodes = len({leaf.tokens[:at] for leaf in leaves for at in range(1, depth)})
    print(f"{LEAVES} leaves, depth {depth}, {nodes} nodes between prompt and leaves", flush=True)
    own, single = times["explore"], times["single"]
    _print("explore", own)
    _print("llama-server, leaf by leaf", times["told"], own, f"{said['told']} of {LEAVES} leaves the same")
    _print("llama-server, node by node", times["found"], own, f"{said['found']} of {LEAVES} leaves found")
    _print("decodes alone, level by level", times["levels"])
    _print("decodes alone, one by one", single, times["levels"], "the most that batches can give")


def _print(name: str, times: list[float], than: list[float] | None = None, note: str = "") -> None:
    text = f"  {name:32} {statistics.median(times) * 1000:9.1f} ms"
    if than is not None:
        found = [one / other for one, other in zip(times, than, strict=True)]
        text += f"  {statistics.median(found):5.1f} x ({min(found):.1f} to {max(found):.1f})"
    print(f"{text}  {note}".rstrip(), flush=True)
