"""A file of a URL in a folder: downloaded once, gone on with after an interruption, and anew when the URL has another.

Beside the file NAME, NAME.version says which version it is, NAME.VERSION.partial is what has come of one, and NAME.lock is
held by who downloads: a second start waits for the first one's file. File systems that have no locks are used without; then
each start writes a partial file of its own.
"""

import base64
import contextlib
import fcntl
import hashlib
import os
import re
import sys
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit, urlunsplit
from uuid import uuid4

from srb.atomic import NO_LOCKS

FAILURES = (OSError, ValueError, HTTPException)  # of a URL, of its server, and of the disk
_TIMEOUT_SECONDS = 60.0  # of the connection and of each read; any of 20 to 120 would do: the start waits for it
_CHECK_SECONDS = 10.0  # to say whether the file here is the newest; without a network it is used after no more
_CHUNK = 1 << 20  # bytes between two looks at the progress: a hundredth of a small model
_DIGITS = 12  # of a hash, in hexadecimal: 48 bits, so that no two URLs or versions of one folder meet by chance


class RemoteFile:
    """A file at an http or https URL; its user and password are in no name and no message."""

    def __init__(self, url: str) -> None:
        """Raise ValueError for the URL of anything else than a file."""
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        name = Path(unquote(parts.path)).name
        if parts.scheme not in ("http", "https") or not parts.hostname or name in ("", ".."):
            raise ValueError("should be the http or https URL of a file")
        self.name = name
        self.url = urlunsplit((parts.scheme, host, parts.path, parts.query, ""))
        # Two files of one host differ in their query alone: each URL has a folder of its own.
        self.folder_name = f"{parts.hostname}-{hashlib.sha256(self.url.encode()).hexdigest()[:_DIGITS]}"
        self._login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}" if "@" in parts.netloc else ""

    def open(self, timeout: float, **headers: str) -> HTTPResponse:
        """Ask for the file. Raise one of FAILURES."""
        request = urllib.request.Request(self.url, headers=headers)
        if self._login:  # for this host alone, and not for one that it redirects to
            secret = base64.b64encode(self._login.encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {secret}")
        try:
            answer: HTTPResponse = urllib.request.urlopen(request, timeout=timeout)
        except HTTPError as error:
            error.close()  # it has the answer's connection
            raise
        return answer


def without_login(url: str) -> str:
    """Return a URL, or what was meant as one, without its user and password."""
    return re.sub(r"^([^/]*//)[^/?#]*@", r"\1", url)


def bring(remote: RemoteFile, target: Path) -> None:
    """Download a file unless `target` is the version that its URL has. Raise one of FAILURES.

    A file that is there stays, and a line says so, if its URL cannot be asked or a newer one does not come whole.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target) as is_alone:
            _bring(remote, target, is_alone)
    except FAILURES as error:
        if not target.is_file():
            raise
        _say(f"{target} is used, which was downloaded before: {one_line(error)}")


def one_line(error: Exception, most: int = 300) -> str:
    """Return an error's message as one line of at most so many characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= most else text[:most] + "…"


def _bring(remote: RemoteFile, target: Path, is_alone: bool) -> None:
    noted = target.with_name(f"{target.name}.version")
    with remote.open(_CHECK_SECONDS if target.is_file() else _TIMEOUT_SECONDS) as answer:
        version = _version(answer)
        if target.is_file() and _text(noted) == version:
            return
        partial = target.with_name(f"{target.name}.{version if is_alone else uuid4().hex[:_DIGITS]}.partial")
        if is_alone:
            _remove_others(target, partial)
        try:
            _continue(remote, answer, partial, target.name)
        except BaseException:
            if not is_alone:
                partial.unlink(missing_ok=True)
            raise
    os.replace(partial, target)
    noted.write_text(version)  # after the file: one without its version is downloaded again


def _version(answer: HTTPResponse) -> str:
    """Return a short hash of what tells this version of a file from others; the same for all where nothing does."""
    mark = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
    text = f"{mark} {answer.headers.get('Content-Length', '')}"
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _continue(remote: RemoteFile, answer: HTTPResponse, partial: Path, name: str) -> None:
    """Write what is missing of a partial file; `answer` has the file from its beginning."""
    mark = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
    size = int(answer.headers.get("Content-Length") or 0)
    with partial.open("ab") as file:
        done = file.tell()
        # If-Range has the whole file sent if it is another by now; a part that is not ours is put behind no other bytes.
        if done and mark and done < size:
            with remote.open(_TIMEOUT_SECONDS, **{"Range": f"bytes={done}-", "If-Range": mark}) as rest:
                if rest.status == HTTPStatus.PARTIAL_CONTENT and (
                    rest.headers.get("Content-Range") == f"bytes {done}-{size - 1}/{size}"
                ):
                    answer.close()
                    _write(rest, file, done, size, name)
                    return
        if not (mark and done == size > 0):
            file.truncate(0)
            _write(answer, file, 0, size, name)


def _write(answer: HTTPResponse, file: BinaryIO, done: int, size: int, name: str) -> None:
    """Write an answer's bytes behind the `done` ones that a file has of `size` (0: not known), and show the progress."""
    shown = ""
    while chunk := answer.read(_CHUNK):
        done += file.write(chunk)
        progress = f"{100 * done // size:3d} %" if size else f"{done >> 20} MiB"
        if progress != shown:
            shown = progress
            print(f"\rsrb: downloading {name}: {progress}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if size and done != size:
        raise OSError(f"the connection was closed after {done} of {size} bytes")
    file.flush()
    os.fsync(file.fileno())  # else its name may reach the disk before its bytes


def _remove_others(target: Path, partial: Path) -> None:
    """Remove what has come of other versions; nobody writes it while the lock is held."""
    name = re.compile(rf"{re.escape(target.name)}\.[0-9a-f]{{{_DIGITS}}}\.partial")
    for path in target.parent.iterdir():
        if name.fullmatch(path.name) and path != partial:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _alone(target: Path) -> Iterator[bool]:
    """Hold the lock of a file's download, and say whether there are locks; wait for another start that has it."""
    with open(target.with_name(f"{target.name}.lock"), "wb") as lock:
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _say(f"another start is downloading {target.name}; this one waits for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            is_alone = True
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            is_alone = False
        yield is_alone  # closing the file frees the lock


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


def _say(text: str) -> None:
    print(f"srb: {text}", file=sys.stderr, flush=True)
