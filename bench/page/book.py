"""The page with a story as large as a book, and beside it with a new one: opening, typing, saving, outline, map."""

from __future__ import annotations

import statistics
import time
from typing import Any

import orjson

from bench.page.desk import Desk
from bench.page.long_story import LongStory
from srb.bench.client import post

WORDS, NODES = 100_000, 5_000
TYPED = " and then she wrote on and on"
KEY_PAUSE = 120  # ms between two typed keys
REST = 3  # seconds after which all is saved and nothing is left to do

OPEN = """async (id) => {
    const began = performance.now();
    await desk.openStory(id);
    await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)));
    return performance.now() - began;
}"""
PAINTS = """(scales) => {
    const map = document.querySelector("srb-map");
    return scales.map((scale) => {
        map.zoom(scale / map.view.scale);
        const began = performance.now();
        for (let count = 0; count < 10; count += 1) map.painter.paint(map.scene);
        return (performance.now() - began) / 10;
    });
}"""
OPEN_MAP = """async () => {
    const began = performance.now();
    desk.openDialog("map");
    while (!(document.querySelector("srb-map")?.painter?.drawn > 0)) await new Promise(requestAnimationFrame);
    return performance.now() - began;
}"""
CLOSE_MAP = """() => {
    const map = document.querySelector("srb-map");
    map.close();
    map.painter.drawn = 0;
}"""
PAN = """async (scale) => {
    const map = document.querySelector("srb-map");
    map.zoom(scale / map.view.scale);
    const frames = [];
    let last = await new Promise(requestAnimationFrame);
    for (let count = 0; count < 120; count += 1) {
        map.pan(count % 60 < 30 ? -24 : 24, 0);
        const now = await new Promise(requestAnimationFrame);
        frames.push(now - last);
        last = now;
    }
    return frames.sort((one, other) => one - other)[113];
}"""
COUNTS = "() => [document.querySelectorAll('*').length, document.querySelectorAll('[role=treeitem]').length]"
LOADED = "() => document.querySelector('srb-note')"  # the last dialog
SCALES = [1, 0.3, 0.05]
MAP_NODES = 10_000


def bring_in(url: str, nodes: int = NODES) -> tuple[str, int]:
    """Give the server a book, as an import does; return its id and its bytes."""
    body = orjson.dumps(LongStory(WORDS, nodes).json())
    with post(url, "/v1/srb/stories", body) as sock:
        answer = bytearray()
        while chunk := sock.recv(65536):
            answer += chunk
    said = orjson.loads(answer.partition(b"\r\n\r\n")[2])
    return said["id"], len(body)


def measure(desk: Desk, book: str, rounds: int) -> dict[str, dict[str, Any]]:
    """Return what opening, typing, outline and map cost; medians of some rounds, new story and book in turns."""
    opened = {"new": list[float](), "book": list[float]()}
    typed = {name: list[dict[str, float]]() for name in ("new", "book, at its end", "book, in its middle")}
    desk.evaluate("() => desk.newStory()")
    for _ in range(rounds):
        typed["new"].append(_type(desk, at=0))
        opened["book"].append(desk.evaluate(OPEN, book))
        typed["book, at its end"].append(_type(desk, at=None))
        typed["book, in its middle"].append(_type(desk, at=desk.evaluate("() => desk.text.length >> 1")))
        desk.evaluate("() => desk.newStory()")
    desk.evaluate(OPEN, book)
    costs = {"open": {"painted_ms": statistics.median(opened["book"])}}
    costs |= {f"typing, {name}": _medians(each) for name, each in typed.items()}
    return costs | {"outline": _outline(desk), "map": _map(desk)}


def measure_briefly(desk: Desk, book: str, rounds: int) -> dict[str, float]:
    """Return what opening the book and typing at its end cost: medians of some rounds."""
    opened, typed = list[float](), list[dict[str, float]]()
    for _ in range(rounds):
        desk.evaluate("() => desk.newStory()")
        opened.append(desk.evaluate(OPEN, book))
        typed.append(_type(desk, at=None))
    return {"open_ms": statistics.median(opened)} | _medians(typed)


def _type(desk: Desk, at: int | None) -> dict[str, float]:
    """Type a sentence; return the main thread's ms for a key, a key's way to the screen, and the bytes of a save."""
    desk.evaluate("(at) => document.querySelector('srb-manuscript').select(at ?? desk.text.length)", at)
    time.sleep(REST)
    desk.saves.clear()
    before = desk.cpu_seconds
    with desk.span() as spans:
        desk.write(TYPED, pause_ms=KEY_PAUSE)
    cpu = desk.cpu_seconds - before
    time.sleep(REST)
    return {
        "cpu_ms_a_key": 1000 * cpu / len(TYPED),
        "key_ms": spans[0].key_ms or 0.0,
        "saves": len(desk.saves),
        "largest_save_bytes": max(desk.saves),
    }


def _medians(each: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(values[key] for values in each) for key in each[0]}


def _outline(desk: Desk) -> dict[str, float]:
    """Open the outline, and type beside it."""
    desk.evaluate("() => document.querySelector('srb-outline').toggle()")
    desk.wait("() => document.querySelector('[role=treeitem]')")
    typed = _type(desk, at=None)
    elements, rows = desk.evaluate(COUNTS)
    all_rows = desk.evaluate("() => document.querySelector('srb-outline').rows.length")
    desk.evaluate("() => document.querySelector('srb-outline').toggle()")
    cpu = typed["cpu_ms_a_key"]
    return {"rows": all_rows, "rows_in_document": rows, "elements": elements, "typing_cpu_ms_a_key": cpu}


def _map(desk: Desk) -> dict[str, float]:
    before = desk.cpu_seconds
    desk.evaluate("() => desk.openDialog('map')")
    desk.wait("() => document.querySelector('srb-map')?.painter?.drawn > 0")
    opened = 1000 * (desk.cpu_seconds - before)
    paints = desk.evaluate(PAINTS, SCALES)
    elements, _ = desk.evaluate(COUNTS)
    desk.evaluate("() => document.querySelector('srb-map').close()")
    times = {f"paint_ms_at_{scale:g}": ms for scale, ms in zip(SCALES, paints, strict=True)}
    return {"open_cpu_ms": opened, **times, "elements": elements}


def measure_map(desk: Desk, book: str, rounds: int) -> dict[str, float]:
    """Return how long the map of a book takes on a page that is loaded, and the longest of 95 in 100 frames of a pan."""
    desk.wait(LOADED)
    desk.evaluate(OPEN, book)
    opened = list[float]()
    for _ in range(rounds):
        opened.append(desk.evaluate(OPEN_MAP))
        desk.evaluate(CLOSE_MAP)
    desk.evaluate(OPEN_MAP)
    frames = {f"pan_frame_ms_at_{scale:g}": desk.evaluate(PAN, scale) for scale in SCALES}
    return {"first_opening_ms": opened[0], "opening_ms": statistics.median(opened), **frames}
