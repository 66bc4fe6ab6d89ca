"""The command `srb stories`: list, export, import, check, share, copy and back up stories, and ask for rounds again."""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NoReturn

import orjson

from srb.config.settings import Settings
from srb.config.values import is_address, place_of_stories
from srb.errors import ConfigError, InvalidRequest, SRBError
from srb.exit_codes import EXIT_CONFIG, EXIT_FAILED, OneLineParser, fail
from srb.reasons import reason_of
from srb.stories import audit
from srb.stories.copying import copy_stories
from srb.stories.files import read_file
from srb.stories.limits import MAX_FILE
from srb.stories.replay import Replayed, ReplayFailed, Server, read_requests, replay
from srb.stories.restore import restore
from srb.stories.store import Store

_TITLE_IN_NAME = 40  # characters, of up to four bytes: beside the id, a file's name has 255 bytes


def main(arguments: Sequence[str]) -> NoReturn:
    """Run one of the commands; the exit status is 1 if anything failed, 2 for wrong arguments or settings."""
    asked = parser().parse_args(arguments)
    if asked.command is _export and asked.all == (asked.target is not None):
        fail("export needs ID and FILE, or --all and FOLDER")
    if asked.command in (_replay, _copy):
        sys.exit(asked.command(asked))
    try:
        place = asked.file or Settings.load().stories_place
        if place is None:
            fail("the setting `stories` is empty; name a file with --file")
        if isinstance(place, Path) and asked.command not in (_import, _restore) and not place.exists():
            fail(f"{place} does not exist: no story has been saved yet", EXIT_FAILED)
        store = Store(place, checks=asked.command is not _export)
    except ConfigError as error:
        fail(error.message)
    try:
        sys.exit(asked.command(store, asked))
    except SRBError as error:
        fail(error.message, EXIT_FAILED)
    except OSError as error:
        path = error.filename or store.shown
        fail(f"{path}: {reason_of(error, path)}", EXIT_FAILED)
    finally:
        store.close()


def _place(text: str) -> Path | str:
    try:
        return place_of_stories(text) if is_address(text) else Path(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None  # its own words would quote a password


def parser() -> OneLineParser:
    found = OneLineParser(prog="srb stories", description=__doc__, allow_abbrev=False)
    found.add_argument(
        "--file",
        type=_place,
        metavar="FILE",
        help="the stories' file, or postgresql://… (default: the setting `stories`)",
    )
    commands = found.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, command: Callable[..., int], text: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        added.set_defaults(command=command)
        return added

    listing = add("list", _list, "list the stories: id, number of nodes, title, owner")
    listing.add_argument("--bin", action="store_true", help="list those in the bin")
    export = add("export", _export, "write a story to a file (-: standard output), or all stories to a folder")
    export.add_argument("--all", action="store_true", help="every story, also those in the bin")
    export.add_argument("story", metavar="ID|FOLDER")
    export.add_argument("target", metavar="FILE", nargs="?")
    bring = add(
        "import",
        _import,
        "import stories from files and backups; each is merged with the story of its id, or not at all",
    )
    bring.add_argument("files", metavar="FILE", nargs="+", type=Path)
    add("check", _check, "check all stories: every node, and the pages of a file")
    sharing = add("share", _share, "let a name read a story, or with --write change it; --end takes that back")
    sharing.add_argument("story", metavar="ID")
    sharing.add_argument("name", metavar="NAME")
    ways = sharing.add_mutually_exclusive_group()
    ways.add_argument("--write", dest="access", action="store_const", const="write", default="read")
    ways.add_argument("--end", dest="access", action="store_const", const="none")
    giving = add("give", _give, "make stories a name's own, such as those from before there were names")
    giving.add_argument("name", metavar="NAME", help="the new owner; - for all who have no name")
    giving.add_argument("stories", metavar="ID", nargs="*")
    giving.add_argument("--all", action="store_true", help="every story that has no owner, also those in the bin")
    backup = add("backup", _backup, "write a copy of the whole file, also while the server writes")
    backup.add_argument("target", metavar="FILE", type=Path)
    back = add("restore", _restore, "put a backup in the file's place, which is kept beside it; the server is stopped")
    back.add_argument("backup", metavar="FILE", type=Path)
    copying = add("copy", _copy, "copy all stories to a place that has none: a file, or postgresql://…")
    copying.add_argument("--update", action="store_true", help="bring a copy of the same stories up to date")
    copying.add_argument("source", metavar="FROM", type=_place, help="a file of stories, or the address of a database")
    copying.add_argument("target", metavar="TO", type=_place)
    again = add(
        "replay", _replay, "ask a server for the rounds of an export again, and compare their texts to the letter"
    )
    again.add_argument(
        "requests", metavar="FILE", type=Path, help="“Rounds, to be asked again” of the page (.rounds.jsonl)"
    )
    again.add_argument("--url", metavar="URL", default="", help="the server (default: the one of the settings)")
    return found


def _list(store: Store, asked: argparse.Namespace) -> int:
    for story in orjson.loads(store.overview(binned=asked.bin))["stories"]:
        title = "".join(sign if sign.isprintable() else " " for sign in story["title"])
        owner = f"  ({story['owner']})" if "owner" in story else ""
        print(f"{story['id']}  {story['nodes']:6d}  {title}{owner}")
    return 0


def _export(store: Store, asked: argparse.Namespace) -> int:
    if not asked.all:
        data = store.export(asked.story)
        if asked.target == "-":
            sys.stdout.buffer.write(data)
        else:
            Path(asked.target).write_bytes(data)
        return 0
    folder, failed = Path(asked.story), 0
    folder.mkdir(parents=True, exist_ok=True)
    for story in (*store.ids(), *store.ids(binned=True)):
        try:
            data = store.export(story)
        except SRBError as error:  # in a damaged file others may be whole
            print(f"srb: story {story}: {error.message}", file=sys.stderr)
            failed += 1
            continue
        path = folder / _file_name(story, data)
        path.write_bytes(data)
        print(path)
    return EXIT_FAILED if failed else 0


def _file_name(story: str, data: bytes) -> str:
    title = orjson.loads(data).get("title")
    words = re.sub(r"\W+", "-", title if isinstance(title, str) else "")[:_TITLE_IN_NAME].strip("-")
    return f"{words}-{story}.json" if words else f"{story}.json"


def _import(store: Store, asked: argparse.Namespace) -> int:
    failed = 0
    for path in asked.files:
        for name, read in _stories_in(path):
            try:
                data, owner = read()
                done = store.bring_in(read_file(data, is_limited=False), is_limited=False, owner=owner)
            except (SRBError, OSError) as error:
                reason = error.message if isinstance(error, SRBError) else error.strerror
                print(f"srb: {name}: {reason}; nothing of it was imported", file=sys.stderr)
                failed += 1
                continue
            note = ", a new story, since the one with the file's id has other texts" if done.copied else ""
            print(f"{name}: {done.nodes} nodes in story {done.id}{note}")
    return EXIT_FAILED if failed else 0


def _stories_in(path: Path) -> Iterator[tuple[str, Callable[[], tuple[bytes, str]]]]:
    """Yield the name of each story of a file, which may be a backup or a damaged file of stories, and how to read it.

    Read are its file and its owner, whom only a file of stories knows.
    """
    if not _is_database(path):
        yield str(path), lambda: (_read_bytes(path), "")
        return
    with closing(Store(path, checks=False)) as found:
        for story in (*found.ids(), *found.ids(binned=True)):
            yield f"{path}: story {story}", partial(_stored, found, story)


def _stored(store: Store, story: str) -> tuple[bytes, str]:
    return store.export(story), orjson.loads(store.shares(story))["owner"]


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False  # reading it will tell why


def _read_bytes(path: Path) -> bytes:
    if path.stat().st_size > MAX_FILE:
        raise InvalidRequest(f"is larger than {MAX_FILE} bytes, the most that one file may have")
    return path.read_bytes()


def _share(store: Store, asked: argparse.Namespace) -> int:
    found = orjson.loads(store.share(asked.story, asked.name, asked.access))
    for name, access in found["shares"].items():
        print(f"{name}  {access}")
    return 0


def _give(store: Store, asked: argparse.Namespace) -> int:
    if bool(asked.stories) == asked.all:
        fail("give needs ID, or --all")
    unowned = store.of("")
    for story in asked.stories or (*unowned.ids(), *unowned.ids(binned=True)):
        store.give(story, "" if asked.name == "-" else asked.name)
        print(story)
    return 0


def _check(store: Store, asked: argparse.Namespace) -> int:
    found = list(audit.problems(store))
    for problem in found:
        print(problem)
    if not found:
        print(f"{store.shown}: {len(store.ids())} stories, {len(store.ids(binned=True))} in the bin; nothing is wrong")
    return EXIT_FAILED if found else 0


def _backup(store: Store, asked: argparse.Namespace) -> int:
    store.backup(asked.target)
    return 0


def _restore(store: Store, asked: argparse.Namespace) -> int:
    if isinstance(store.place, str):
        fail(f"{store.shown} is restored by PostgreSQL's own tools, such as pg_restore", EXIT_FAILED)
    asked.backup.open("rb").close()  # which says why it cannot be read
    if not _is_database(asked.backup):
        fail(f"{asked.backup} is no file of stories; srb stories import takes a story's own file", EXIT_FAILED)
    kept = restore(store.place, asked.backup)
    print(f"{store.shown} has the stories of {asked.backup}" + (f"; what was there is {kept}" if kept else ""))
    return 0


def _copy(asked: argparse.Namespace) -> int:
    if isinstance(asked.source, Path) and not asked.source.exists():
        fail(f"{asked.source} does not exist", EXIT_FAILED)
    try:
        copied = copy_stories(asked.source, asked.target, update=asked.update)
        print(f"{copied.written} stories were copied" + (f", {copied.removed} removed" if copied.removed else ""))
    except ConfigError as error:
        fail(error.message)
    except SRBError as error:
        fail(error.message, EXIT_FAILED)
    return 0


def _replay(asked: argparse.Namespace) -> int:
    """Ask for rounds again; the exit status is 1 if a text differs."""
    try:
        settings = Settings.load()
        keys = [each.key for each in settings.load_api_keys() if not each.is_for_metrics]
        data = _read_bytes(asked.requests)
        found = Replayed()
        with closing(Server(asked.url or f"http://127.0.0.1:{settings.port}", keys[0] if keys else "")) as server:
            model = server.ask("GET", "/v1/srb/server")["model"]
            for found in replay(server, read_requests(data)):
                if sys.stderr.isatty():
                    print(f"\r{found.requests} rounds", end="", file=sys.stderr)
    except SRBError as error:
        fail(error.message, EXIT_FAILED if isinstance(error, ReplayFailed) else EXIT_CONFIG)
    except OSError as error:
        fail(f"{asked.requests}: {reason_of(error, asked.requests)}")
    except KeyboardInterrupt:
        fail("stopped", EXIT_FAILED)
    for each in found.differences:
        words = f"after {each.at} characters {each.now[:40]!r} in place of {each.was[:40]!r}"
        print(f"round {each.round}, branch {each.index}: {words}")
    print(
        f"{found.requests} requests, {found.texts} texts: {found.texts - len(found.differences)} the same to the letter"
    )
    if found.unkept:
        print(f"{found.unkept} requests are not in the file as they were asked")
    if others := found.models - {model}:
        print(f"the server has {model}, and texts are by {', '.join(sorted(others))}")
    return EXIT_FAILED if found.differences else 0
