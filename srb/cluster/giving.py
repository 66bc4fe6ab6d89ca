"""The texts of a replica that leaves, for those that go on with its stories: through its door, a connection for a story.

`srb/engine/process/texts_elsewhere.py` is the other side, and has the form of what is said. The engine writes what it has
first; its files are read here, in pieces, so that no stream through the door waits for them.
"""

import asyncio
import re
from base64 import b64decode
from io import BytesIO
from pathlib import Path
from typing import Any

import orjson

from srb.cluster.link import Link, ask_own
from srb.errors import SRBError
from srb.files.text_entry import read_framed, unpacked
from srb.wire.commands import GetTexts
from srb.wire.framing import frame, read_frame

_STORY = re.compile(r"[0-9a-f]{24}")  # a digest
_MOST_ASKED = 4 * 1024 * 1024  # bytes of a frame: of a story's name, or of the ids that are wanted
_PIECE = 1024 * 1024  # bytes of KV in a frame
_WRITE_SECONDS = 2.0  # that the engine has to write what it has; what is not written then is computed again
_LOOK_SECONDS = 0.02  # between looks whether it has
_STALLED_SECONDS = 10.0  # until a receiver that takes nothing is given up


async def give_texts(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, socket_path: Path) -> None:
    """Give a replica the texts of the story that it asks for.

    Raise OSError, EOFError, TimeoutError, ProtocolError or ValueError if it is gone or asks for something else.
    """
    async with asyncio.timeout(_STALLED_SECONDS):
        asked = orjson.loads(await read_frame(reader, _MOST_ASKED))
    story = asked.get("story") if isinstance(asked, dict) else None
    if not isinstance(story, str) or not _STORY.fullmatch(story):
        raise ValueError("a story is named by 24 hexadecimal digits")
    try:
        async with asyncio.timeout(_STALLED_SECONDS):
            given = await _written(socket_path, story)
    except SRBError as error:
        given = {"refused": error.message}
    await _say(writer, orjson.dumps(given))
    of = (unpacked(read_framed(BytesIO(b64decode(entry))))[0] for entry in given.get("entries", ()))
    sizes = {each.id: each.nbytes for each in of}
    async with asyncio.timeout(_STALLED_SECONDS):
        wanted = orjson.loads(await read_frame(reader, _MOST_ASKED))
    for id_ in wanted if isinstance(wanted, list) else ():
        if not isinstance(id_, str) or id_ not in sizes:
            raise ValueError("a text is wanted that was not offered")
        await _send(writer, Path(given["folder"]) / id_, sizes[id_])


async def _written(socket_path: Path, story: str) -> dict[str, Any]:
    """Return what the engine has of a story, when it has written all that rests. Raise OSError, EOFError or SRBError."""
    link = await Link.open_own(socket_path)
    try:
        deadline = asyncio.get_running_loop().time() + _WRITE_SECONDS
        while True:
            is_late = asyncio.get_running_loop().time() > deadline
            found: dict[str, Any] = await ask_own(link, GetTexts("texts", story, is_late))
            if found["entries"] is not None:
                return found
            await asyncio.sleep(_LOOK_SECONDS)
    finally:
        link.close()


async def _send(writer: asyncio.StreamWriter, path: Path, nbytes: int) -> None:
    """Send a record's KV. The receiver checks its sum, and that it is whole."""
    with path.open("rb") as file:
        while nbytes and (piece := await asyncio.to_thread(file.read, min(nbytes, _PIECE))):
            nbytes -= len(piece)
            await _say(writer, piece)


async def _say(writer: asyncio.StreamWriter, payload: bytes) -> None:
    async with asyncio.timeout(_STALLED_SECONDS):
        writer.write(frame(payload))
        await writer.drain()
