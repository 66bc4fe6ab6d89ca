"""Static files: the user's folder, served at / before any route."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from werkzeug import Response
from werkzeug.exceptions import HTTPException
from werkzeug.security import safe_join
from werkzeug.utils import send_file

from srb.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


class StaticFiles:
    """Files below `folder`; symbolic links that lead out of it are not served."""

    def __init__(self, folder: str) -> None:
        """Raise ConfigError if `folder` is not a folder."""
        self._folder = Path(folder).resolve()
        if not self._folder.is_dir():
            raise ConfigError(f"static_path: {folder} is not a folder")

    def find(self, path: str) -> Path | None:
        """Return the file for a path as WSGI encodes it, or None; a path that ends with a slash means its index.html."""
        try:
            name = path.encode("latin-1").decode()
        except UnicodeDecodeError:
            return None
        if name.endswith("/"):
            name += "index.html"
        joined = None if "\0" in name else safe_join(str(self._folder), name.lstrip("/"))
        if joined is None:
            return None
        try:
            file = Path(joined).resolve()
            return file if file.is_relative_to(self._folder) and file.is_file() else None
        except (OSError, RuntimeError):  # a name too long; a loop of links, another error in Python 3.13 than in 3.11
            return None

    def send(self, file: Path, environ: WSGIEnvironment) -> Response:
        """Return the response with a file that `find` returned; supports ranges and conditional requests."""
        try:
            return send_file(file, environ, conditional=True)
        except HTTPException as error:  # a range outside the file
            return Response(status=error.code)
