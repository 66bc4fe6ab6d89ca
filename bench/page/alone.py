"""A browser that nothing watches, for measures of its cost: driven over DevTools' pipe, with no events asked for.

Playwright follows each chunk of each answer. On two cores that takes as much time from the server as the page itself does.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from bench.page.desk import chromium

# As Playwright starts it, so that both measure the same browser.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--mute-audio",
    "--remote-debugging-pipe",
    "--window-size=1440,900",
)
ENTER = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "modifiers": 2}  # with Ctrl
WATCH = Path(__file__).with_name("watch.js")
LOADED = "location.href !== 'about:blank' && document.readyState === 'complete'"
READY = "document.activeElement?.localName === 'srb-manuscript'"
SAVED = "desk.saved.state === 'saved'"
# Notes the time from the arrival of a round's first words to that of its end: what the server needs to write it.
CLOCK = """(() => {
    const { rounds } = desk;
    let began = null;
    readWatch();
    globalThis.ended = new Promise((resolve) => {
        rounds.text = (...given) => {
            began ??= performance.now();
            delete rounds.text;
            rounds.text(...given);
        };
        desk.addEventListener("round", function note() {
            if (began === null || desk.round?.state !== "ended") return;
            desk.removeEventListener("round", note);
            resolve(performance.now() - began);
        });
    });
})()"""
KEEP_BODY = """
{
    const ask = globalThis.fetch;
    globalThis.fetch = (path, options) => {
        if (String(path).endsWith("/completions") && options?.method === "POST") globalThis.sentBody = options.body;
        return ask(path, options);
    };
}
"""
USER, SYSTEM, SESSION = 11, 12, 3  # places in /proc/PID/stat after the name
# The least that shows n texts: one element each, written to at the page's own pace, and nothing else.
BARE = """async (path, body, beat) => {
    const { n } = JSON.parse(body);
    document.body.replaceChildren(...Array.from({ length: n }, () => document.createElement("p")));
    const texts = [...document.body.children].map((each) => each.appendChild(new Text()));
    const grown = texts.map(() => "");
    let [told, began, waits, rest, running] = [-Infinity, null, false, "", n];
    const draw = () => requestAnimationFrame(() => {
        [told, waits] = [performance.now(), false];
        texts.forEach((text, index) => { if (grown[index].length > text.length) text.data = grown[index]; });
    });
    const read = (line) => {
        if (!line.startsWith("data: {")) return;
        const event = JSON.parse(line.slice(6));
        if (event.event === "stop") running -= 1;
        if (event.event !== "stream") return;
        began ??= performance.now();
        grown[event.index] += event.text;
        if (waits) return;
        waits = true;
        setTimeout(draw, Math.max(0, told + beat - performance.now()));
    };
    const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
        const lines = (rest + part).split("\\n");
        rest = lines.pop();
        lines.forEach(read);
        if (!running) break;
    }
    return performance.now() - began;
}"""


class Tab:
    """A page in a browser of its own."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.ask("Page.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of DevTools for this page; return its result."""
        return self._browser.ask(method, self._session, **params)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression, of a promise when it is kept; raise RuntimeError with what it throws."""
        answer = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(orjson.dumps(answer["exceptionDetails"]).decode())
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        look = f"const look = () => {condition} ? resolve(true) : setTimeout(look, 50); look();"
        self.evaluate(f"new Promise((resolve) => {{ {look} }})")

    def call(self, function: str, *arguments: object) -> Any:
        """Return what a function of JavaScript returns."""
        return self.evaluate(f"({function})({', '.join(orjson.dumps(each).decode() for each in arguments)})")

    def open(self, url: str) -> None:
        """Go to an address, and wait until it is loaded."""
        self.ask("Page.navigate", url=url)
        self.wait(LOADED)

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of all processes of the browser."""
        return self._browser.cpu_seconds


class Writer(Tab):
    """The desk of a server, where a text is continued."""

    def __init__(self, browser: Browser, url: str) -> None:
        super().__init__(browser)
        self.ask("Page.addScriptToEvaluateOnNewDocument", source=WATCH.read_text() + KEEP_BODY)
        self.open(url)
        self.wait(READY)

    def set(self, **settings: object) -> None:
        """Set settings of the story."""
        for name, value in settings.items():
            self.call("(name, value) => desk.setSetting(name, value)", name, value)

    def write(self, text: str) -> None:
        """Type a text at the caret."""
        self.ask("Input.insertText", text=text)

    def wait_until_saved(self) -> None:
        """Wait until the server has the story: saving would take part in what is measured next."""
        self.wait(SAVED)

    def continue_text(self) -> tuple[float, float, bytes]:
        """Press Ctrl+Enter and wait for the round's end.

        Return ms to the first word's paint, seconds from the first words' arrival to that of the last, and the body that was
        sent.
        """
        self.evaluate(CLOCK)
        self.ask("Input.dispatchKeyEvent", type="rawKeyDown", **ENTER)
        milliseconds = self.evaluate("ended")
        self.ask("Input.dispatchKeyEvent", type="keyUp", **ENTER)
        first, body = self.evaluate("[readWatch().firstWord, sentBody]")
        if first is None:
            raise RuntimeError("no word was shown")
        return first, milliseconds / 1000, body.encode()


class Bare(Tab):
    """A page of one element for each branch, which shows what comes and does nothing else: the least that a page costs."""

    def __init__(self, browser: Browser, url: str) -> None:
        super().__init__(browser)
        self.open(f"{url}/health")

    def show(self, path: str, body: bytes, beat: int) -> float:
        """Ask for texts and show them, drawn each `beat` ms; return seconds from the first words to the end."""
        return self.call(BARE, path, body.decode(), beat) / 1000


class Browser:
    """Chromium with a profile of its own."""

    def __init__(self, profile: str) -> None:
        (its_in, ours_out), (ours_in, its_out) = os.pipe(), os.pipe()
        held = [os.fdopen(ours_out, "wb", 0), os.fdopen(ours_in, "rb")]
        self._writer, self._reader = held
        self._ids = itertools.count(1)
        # DevTools' pipe is at descriptors 3 and 4: the shell moves it there, from numbers beyond.
        far = [fcntl.fcntl(each, fcntl.F_DUPFD, 10) for each in (its_in, its_out)]
        moved = 'exec "$@" 3<&{0} 4>&{1} {0}<&- {1}>&-'.format(*far)
        command = ["bash", "-c", moved, "bash", chromium(), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(command, pass_fds=far, start_new_session=True, stderr=subprocess.DEVNULL)
        for each in (its_in, its_out, *far):
            os.close(each)

    def ask(self, method: str, session: str = "", /, **params: Any) -> dict[str, Any]:
        """Call a method of DevTools; return its result, or raise RuntimeError with its error."""
        asked = next(self._ids)
        call = {"id": asked, "method": method, "params": params} | ({"sessionId": session} if session else {})
        self._writer.write(orjson.dumps(call) + b"\0")
        while (said := self._read()).get("id") != asked:  # an event that comes along
            pass
        if "error" in said:
            raise RuntimeError(f"{method}: {said['error']['message']}")
        return said["result"]

    def _read(self) -> dict[str, Any]:
        said = bytearray()
        while (byte := self._reader.read(1)) != b"\0":
            if not byte:
                raise RuntimeError("the browser has ended")
            said += byte
        return orjson.loads(said)

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of all processes of the browser until now."""
        ticks = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # it has just ended
                values = path.read_text().rpartition(")")[2].split()
                if int(values[SESSION]) == self._process.pid:
                    ticks += int(values[USER]) + int(values[SYSTEM])
        return ticks / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(RuntimeError, OSError):
            self.ask("Browser.close")
        self._process.wait(30)
        self._writer.close()
        self._reader.close()


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Run Chromium while the block lasts."""
    with tempfile.TemporaryDirectory(prefix="srb-bench-browser-", ignore_cleanup_errors=True) as profile:
        opened = Browser(profile)
        try:
            yield opened
        finally:
            opened.close()
