"""The page at /: its document, and below /page/ its modules, styles and libraries, served as they are written.

Only the comments of our own modules are left out: they are a third of what a browser would load before the first word.
The document names modules and styles by their edition, `page/~3f2a…/main.js`: a browser asks for each of 230 files once, and
not at every load.
"""

import gzip
import hashlib
import os
import re
import shlex
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from flask import Blueprint, Response, request
from markupsafe import escape
from werkzeug.security import safe_join

from srb.errors import NotFound
from srb.web.context import web
from srb.web.openapi import operation

routes = Blueprint("page", __name__)

FOLDER = Path(__file__).parents[1] / "page"
DOCUMENT = "index.html"
EXAMPLE_TARGET = "http://localhost:9090/v1/srb/completions"  # in the document, for the address that the visitor used

# Not from the system's table, which differs between machines: a module of another type than text/javascript does not run.
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
POLICY = (
    *("default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "font-src 'self'"),
    *("img-src 'self' data: blob:", "media-src blob:", "manifest-src 'self'", "base-uri 'none'", "form-action 'none'"),
    *("frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types lit-html srb-worker"),
)
# With its lines to itself.
COMMENT = re.compile(r"^[ \t]*(?:/\*\*(?:(?!\*/).)*\*/|//[^\n]*)[ \t]*$", re.DOTALL | re.MULTILINE)
LIBRARIES = "vendor"  # their comments have the licences
COMPRESSED = {".css", ".html", ".js", ".json", ".svg", ".webmanifest"}
MOST_FILES = 512  # kept in memory; the page has fewer
IN_EDITION = re.compile(r'="page/(?=[^"]+\.(?:css|js)")')  # links of the document; others have addresses that stay
KEEP = "max-age=31536000, immutable"  # a year: what is named by its content never changes
HEADERS = {
    "Cache-Control": "no-cache",  # a browser asks each time, and mostly gets 304
    "Content-Security-Policy": "; ".join(POLICY),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


Version = tuple[int, ...]  # numbers of which one changes with the file


@dataclass(frozen=True)
class Content:
    """The content of an answer. Its hash is the tag: times of installed files may all be equal."""

    plain: bytes

    @cached_property
    def tag(self) -> str:
        return hashlib.sha256(self.plain).hexdigest()[:32]

    @cached_property
    def packed(self) -> bytes:
        """The content as gzip, the same bytes each time."""
        return gzip.compress(self.plain, mtime=0)


@dataclass(frozen=True)
class Edition:
    """All files of the page as they were at one time, named by their contents: alike on all machines that serve them."""

    name: str
    versions: dict[Path, Version]

    @classmethod
    def of_now(cls) -> "Edition":
        """Look at all files; each is read and hashed again only if it has changed."""
        paths = sorted(path for path in FOLDER.rglob("*") if path.suffix in MEDIA_TYPES and path.is_file())
        versions = {path: _version(path) for path in paths}
        contents = hashlib.sha256()
        for path, version in versions.items():
            contents.update(f"{path.relative_to(FOLDER)} {_read(path, version).tag}\n".encode())
        return cls("~" + contents.hexdigest()[:16], versions)


@routes.get("/")
@operation(media_type="text/html", foreign=True)
def front_door() -> Response:
    """Show the page for writing; without JavaScript it is a command to try."""
    _check_enabled()
    settings = web().server
    host = request.host or f"localhost:{settings.port}"  # empty without a valid Host header
    target = shlex.quote(f"{request.scheme}://{host}{settings.api_prefix}/v1/srb/completions")
    document = (FOLDER / DOCUMENT).read_text(encoding="utf-8").replace(EXAMPLE_TARGET, str(escape(target)))
    if not settings.static_path:  # files of the user's own come before the page's, and have no edition
        document = IN_EDITION.sub(f'="page/{_look().name}/', document)
    return _reply(Content(document.encode()), ".html")


@routes.get("/page/<path:name>")
@operation(media_type="*/*", foreign=True)
def page_file(name: str) -> Response:
    """Serve a file of the page: a module, a style sheet, a library. One of the edition that is there is kept by browsers."""
    _check_enabled()
    edition, slash, rest = name.partition("/")
    is_of_edition = edition.startswith("~") and slash
    path = _find(rest if is_of_edition else name)
    if path is None:
        raise NotFound("File Not Found")
    version = _version(path)
    reply = _reply(_read(path, version), path.suffix)
    if is_of_edition and _has(edition, path, version):
        reply.headers["Cache-Control"] = KEEP
    return reply


_newest: Edition | None = None  # that was looked at last


def _look() -> Edition:
    global _newest
    _newest = Edition.of_now()
    return _newest


def _has(name: str, path: Path, version: Version) -> bool:
    """Return whether an edition has this version of a file. While files are being replaced, a name may be of others."""
    edition = _newest if _newest is not None and _newest.name == name else _look()
    return edition.name == name and edition.versions.get(path) == version


def _check_enabled() -> None:
    if not web().server.ui:
        raise NotFound("File Not Found")


def _find(name: str) -> Path | None:
    """Return the file of the page, or None; the document is at / only, since its links are relative to that."""
    joined = None if "\0" in name or name == DOCUMENT else safe_join(str(FOLDER), name)
    path = None if joined is None else Path(joined)
    try:
        return path if path is not None and path.is_file() else None
    except OSError:  # a name too long
        return None


def _version(path: Path) -> Version:
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@lru_cache(MOST_FILES)
def _read(path: Path, version: Version) -> Content:
    """Return a file of this version; it is hashed and compressed once."""
    return Content(served(path))


def served(path: Path) -> bytes:
    """Return a file of the page as browsers get it."""
    content = path.read_bytes()
    if path.suffix == ".js" and LIBRARIES not in path.parts:
        return without_comments(content.decode()).encode()
    return content


def without_comments(module: str) -> str:
    """Return a module without the comments that have lines to themselves; what is left keeps its line numbers."""
    return COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), module)


def _reply(content: Content, suffix: str) -> Response:
    """Return the content, compressed for a client that takes it, or 304 where the client has it."""
    is_packed = suffix in COMPRESSED and request.accept_encodings.quality("gzip") > 0
    body = content.packed if is_packed else content.plain
    reply = Response(body, content_type=MEDIA_TYPES.get(suffix, "text/plain; charset=utf-8"), headers=HEADERS)
    if suffix in COMPRESSED:
        reply.vary.add("Accept-Encoding")
    if is_packed:
        reply.content_encoding = "gzip"
    reply.set_etag(f"{content.tag}-gzip" if is_packed else content.tag)  # a tag names these very bytes
    reply.make_conditional(request)
    return reply
