"""Pictures in the manuscript, with a real model and projector: dropped, shown, sent, kept, undone and carried along."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64decode, b64encode
from itertools import pairwise
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from playwright.sync_api import Locator, Page, Request, expect

from tests.media import bmp, png, wav
from tests.models.random_gguf import write_llama
from tests.models.random_projectors import write_projector
from tests.page.accessibility import violations
from tests.page.conftest import MakePage, Troubles
from tests.page.paused import Paused, pause
from tests.page.writer import Writer, wait_for_event
from tests.processes import wait_for
from tests.servers import MakeServer, Server

pytest.importorskip("llama_cpp.mtmd_cpp", reason="llama-cpp-python was built without mtmd")

CAT, DOG = png(40, 30, seed=1), png(30, 40, seed=2)
MARKER = re.compile(r"!\[([^]]*)]\(srb:([0-9a-f]{32})\)")
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
HTML = b"<!doctype html><script>alert(1)</script>"

GIVE = """([bytes, name, type, how, at]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([Uint8Array.from(atob(bytes), (each) => each.charCodeAt(0))], name, { type }));
    const target = document.querySelector("srb-manuscript").shadowRoot.querySelector(".cm-content");
    const options = { bubbles: true, cancelable: true, composed: true };
    target.dispatchEvent(how === "paste"
        ? new ClipboardEvent("paste", { ...options, clipboardData: transfer })
        : new DragEvent("drop", { ...options, dataTransfer: transfer, ...at }));
}"""


@pytest.fixture(scope="module")
def seer(server_with: MakeServer, tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder = tmp_path_factory.mktemp("seer")
    model, projector = write_llama(folder / "model.gguf"), write_projector(folder / "mmproj.gguf")
    return server_with(model=model, mmproj=projector, n_ctx=8192, chat_template="chatml", threads=1)


def writer_of(page: Page, seer: Server) -> Writer:
    writer = Writer(page, seer.url).set(max_tokens=4, stop_at="", n=2)
    return writer.wait("desk.server.modalities?.vision")


@pytest.fixture
def sighted(page: Page, seer: Server) -> Writer:
    return writer_of(page, seer)


def give(
    page: Page, data: bytes, name: str = "cat.png", kind: str = "image/png", how: str = "drop", **at: float
) -> None:
    """Drop or paste a file as a browser tells of it."""
    page.evaluate(GIVE, [b64encode(data).decode(), name, kind, how, at])


def pictures(page: Page) -> Locator:
    return page.locator("srb-manuscript .picture img")


def give_shown(page: Page, data: bytes = CAT, count: int = 1, **options: Any) -> None:
    give(page, data, **options)
    expect(pictures(page)).to_have_count(count)


def full_text(page: Page) -> str:
    return str(page.evaluate("desk.text"))


def bodies(page: Page) -> list[dict[str, Any]]:
    """Gather the bodies of all requests for branches from now on."""
    found: list[dict[str, Any]] = []

    def note(request: Request) -> None:
        if request.method == "POST" and request.url.endswith("/v1/srb/completions"):
            found.append(json.loads(request.post_data or "{}"))

    page.on("request", note)
    return found


def notice(page: Page) -> Locator:
    return page.locator("srb-banner p:not(.server)")


def test_a_dropped_picture_is_shown_kept_and_sent_with_the_text_around_it(sighted: Writer, seer: Server) -> None:
    page, sent = sighted.page, bodies(sighted.page)
    sighted.write("Look: ")
    give_shown(page)
    sighted.write(" It")
    name, medium = MARKER.findall(full_text(page))[0]
    assert (name, full_text(page)) == ("cat.png", f"Look: ![cat.png](srb:{medium}) It")
    expect(page.get_by_role("img", name="Picture: cat.png")).to_be_visible()
    sighted.go().wait_for_end()
    assert sent[0]["prompt"] == {"prompt_string": "Look: <__media__> It", "multimodal_data": [b64encode(CAT).decode()]}
    story = page.evaluate("desk.story.id")
    kept = seer.get(f"/v1/srb/stories/{story}/media/{medium}")
    assert (kept.content, kept.headers["Content-Type"]) == (CAT, "image/png")


def test_a_picture_that_was_taken_along_is_sent_with_the_next_round(sighted: Writer) -> None:
    page, sent = sighted.page, bodies(sighted.page)
    give_shown(page)
    sighted.go().wait_for_end()
    page.evaluate("void desk.take(0)")
    wait_for_event(page, lambda: len(sent) == 2, "a second round is asked for")
    assert sent[1]["prompt"]["prompt_string"].startswith("<__media__>")
    expect(pictures(page)).to_have_count(1)


def test_a_picture_stands_where_it_is_dropped(sighted: Writer) -> None:
    sighted.write("first line").press("Enter").write("second line")
    line = sighted.page.locator("srb-manuscript .cm-line").first.bounding_box()
    assert line is not None
    give_shown(sighted.page, clientX=line["x"] + 1, clientY=line["y"] + line["height"] / 2)
    assert MARKER.sub("#", full_text(sighted.page)) == "#first line\nsecond line"


def test_a_picture_is_no_barrier(make_page: MakePage, seer: Server) -> None:
    sighted = writer_of(make_page(bypass_csp=True), seer)  # axe sets styles of its own
    give_shown(sighted.page)
    assert violations(sighted.page) == []


def test_a_picture_that_is_dropped_while_the_server_keeps_nothing_is_there_after_a_reload(
    page: Page, seer: Server, troubles: Troubles
) -> None:
    troubles.allow("stories_off|status of 50[0-9]|Failed to load resource")
    off = {"error": {"code": 404, "type": "stories_off", "message": "This server keeps no stories"}}
    pause(page, "*/v1/srb/stories*", lambda request: request.fulfill(404, json=off))
    writer = Writer(page, seer.url).wait("desk.server.modalities?.vision")
    give_shown(page)
    writer.write(" words").wait_until_saved()
    writer.reload()
    expect(pictures(page)).to_have_count(1)


def test_a_pasted_picture_stands_at_the_caret(sighted: Writer) -> None:
    sighted.write("ab").press("ArrowLeft")
    give_shown(sighted.page, how="paste")
    assert MARKER.sub("#", full_text(sighted.page)) == "a#b"


def test_a_chosen_picture_stands_at_the_caret(sighted: Writer) -> None:
    page = sighted.page
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Add a picture").click()
    chooser.value.set_files([{"name": "dog.png", "mimeType": "image/png", "buffer": DOG}])
    expect(page.get_by_role("img", name="Picture: dog.png")).to_be_visible()


def test_a_picture_is_one_character_for_the_keys_and_undo_brings_it_back(sighted: Writer) -> None:
    page = sighted.page
    sighted.write("a")
    give_shown(page)
    whole = full_text(page)
    sighted.press("Backspace")
    assert full_text(page) == "a"
    sighted.press("Control+z")
    expect(pictures(page)).to_have_count(1)
    assert full_text(page) == whole
    sighted.press("ArrowLeft", "ArrowLeft").write("x")
    assert MARKER.sub("#", full_text(page)) == "xa#"
    sighted.press("Control+z", "Control+z")
    assert full_text(page) == "a"
    sighted.press("Control+Shift+z")
    expect(pictures(page)).to_have_count(1)


def test_a_click_selects_a_picture_which_delete_then_removes(sighted: Writer) -> None:
    sighted.write("ab").press("ArrowLeft")
    give_shown(sighted.page)
    pictures(sighted.page).click()
    sighted.press("Delete")
    assert full_text(sighted.page) == "ab"


def test_a_picture_is_there_after_a_reload_and_in_another_browser(
    sighted: Writer, seer: Server, make_page: MakePage
) -> None:
    give_shown(sighted.page)
    sighted.wait_until_saved()
    story = sighted.page.evaluate("desk.story.id")
    sighted.reload()
    expect(pictures(sighted.page)).to_have_count(1)
    other = Writer(make_page(), seer.url)
    other.page.evaluate("(id) => desk.openStory(id)", story)
    expect(pictures(other.page)).to_have_count(1)


def test_an_exported_story_has_its_pictures_in_another_browser_and_server(
    sighted: Writer, slow: Server, make_page: MakePage, tmp_path: Path
) -> None:
    give_shown(sighted.page)
    sighted.write(" words").wait_until_saved()
    dialog = sighted.open_dialog("formats")
    with sighted.page.expect_download() as download:
        dialog.get_by_role("button", name="SRB story").click()
    path = tmp_path / "story.json"
    download.value.save_as(path)
    [medium] = json.loads(path.read_text())["media"].values()
    assert medium == {"type": "image/png", "data": b64encode(CAT).decode()}
    other = Writer(make_page(), slow.url)
    other.open_dialog("formats").get_by_label("Choose files").set_input_files(path)
    expect(pictures(other.page)).to_have_count(1)
    story = other.page.evaluate("desk.story.id")
    address = f"/v1/srb/stories/{story}/export"
    wait_for(lambda: other.page.evaluate("1") and "media" in slow.get(address).json(), "the shown picture is kept, too")
    assert slow.get(address).json()["media"] == json.loads(path.read_text())["media"]


TRAPS = {
    "damaged.png": (CAT[:60], "damaged"), "svg.png": (SVG, "cannot be read"), "html.png": (HTML, "cannot be read"),
    "empty.png": (b"", "cannot be read"), "huge.png": (png(50_000, 50_000, raw=b"\0"), "50000 × 50000 pixels"),
}  # fmt: skip


def test_what_is_no_picture_is_refused_in_a_sentence_and_the_text_stays(sighted: Writer, troubles: Troubles) -> None:
    troubles.allow("status of 400")
    sighted.write("before")
    for name, (data, says) in TRAPS.items():
        give(sighted.page, data, name=name)
        expect(notice(sighted.page).filter(has_text=name)).to_contain_text(says)
        assert full_text(sighted.page) == "before"


def test_a_large_picture_is_made_smaller_before_it_is_kept(sighted: Writer) -> None:
    page, sent = sighted.page, bodies(sighted.page)
    give_shown(page, png(3000, 400, seed=3), name="large.png")
    size = page.evaluate("[...desk.rounds.context.media.known.values()][0].length")
    assert size < 2**20
    sighted.go()
    assert len(sent[0]["prompt"]["multimodal_data"][0]) < 2**20 * 4 / 3


def test_a_model_without_eyes_says_what_is_missing(writer: Writer) -> None:
    writer.write("before")
    give(writer.page, CAT)
    expect(notice(writer.page)).to_contain_text("mmproj")
    assert full_text(writer.page) == "before"
    expect(writer.page.get_by_role("button", name="Add a picture")).to_have_count(0)


def test_a_story_whose_pictures_the_model_cannot_see_goes_on_without_them_when_asked(writer: Writer) -> None:
    page, sent = writer.page, bodies(writer.page)
    page.evaluate("(bytes) => desk.withRounds((rounds) => rounds.context.media.takeIn({'': {data: bytes}}))",
                  b64encode(CAT).decode())  # fmt: skip
    medium = page.evaluate("[...desk.rounds.context.media.known.keys()][0]")
    page.evaluate("(marker) => desk.manuscript.insert(marker)", f"See ![cat](srb:{medium}) there")
    writer.press("Control+Enter")
    expect(notice(page)).to_contain_text("takes none")
    assert sent == []
    notice(page).get_by_role("button", name="Leave them out").click()
    wait_for_event(page, lambda: len(sent) == 1, "a round is asked for")
    assert sent[0]["prompt"] == "See  there"


def test_a_chat_has_the_picture_in_its_template(sighted: Writer) -> None:
    sent = bodies(sighted.page)
    sighted.set(mode="chat")
    give_shown(sighted.page)
    sighted.write(" It is")
    sighted.go()
    prompt = sent[0]["prompt"]
    assert prompt["prompt_string"].endswith("<|im_start|>assistant\n<__media__> It is")
    assert len(prompt["multimodal_data"]) == 1


def test_a_file_of_a_story_is_still_imported_wherever_it_is_dropped(sighted: Writer) -> None:
    give(sighted.page, b"A dropped tale.", name="tale.txt", kind="text/plain")
    sighted.expect_text("A dropped tale.")


def test_the_outline_and_the_title_show_a_sign_for_a_picture(sighted: Writer) -> None:
    give_shown(sighted.page)
    sighted.write(" words")
    sighted.page.get_by_role("button", name="Outline").click()
    wait_for(lambda: "🖼 cat.png" in sighted.page.locator("srb-outline").inner_text(), "the outline has a sign")
    assert sighted.page.evaluate("desk.title").startswith("🖼 cat.png")


GONE = f"![gone](srb:{'0' * 32})"


def asked_for(page: Page) -> list[str]:
    """Gather the addresses of all pictures that are read from now on."""
    found: list[str] = []
    page.on("request", lambda request: found.append(request.url) if "/media/" in request.url else None)
    return found


def test_no_picture_is_drawn_or_asked_for_anew_when_the_text_is_saved(sighted: Writer, troubles: Troubles) -> None:
    troubles.allow("status of 404")
    page = sighted.page
    give_shown(page)
    page.evaluate("(marker) => desk.manuscript.insert(marker)", f" and {GONE}")
    expect(page.get_by_role("img", name="Picture, not here: gone")).to_be_visible()
    sighted.wait_until_saved()
    first = pictures(page).element_handle()
    asked = asked_for(page)
    sighted.write(" words").wait_until_saved()
    page.evaluate("desk.tell('saved')")
    assert asked == []
    page.evaluate("desk.tell('server')")
    wait_for_event(page, lambda: len(asked) == 1, "the missing picture is asked for again")
    assert first.evaluate("(picture) => picture.isConnected")
    sighted.press("Control+a", "Delete").wait_until_saved()  # other tests' pages open the latest story


def test_the_caret_stays_where_a_person_has_gone_on_while_a_picture_is_stored(sighted: Writer) -> None:
    page = sighted.page
    sighted.write("ab")
    held: list[Paused] = []
    pause(page, "*/v1/srb/stories/*/media", held.append)
    give(page, CAT)
    wait_for_event(page, lambda: len(held) == 1, "the picture is on its way")
    sighted.press("Home").write("x")
    held[0].continue_()
    expect(pictures(page)).to_have_count(1)
    sighted.write("y")
    assert MARKER.sub("#", full_text(page)) == "xyab#"


def test_another_story_is_not_given_a_picture_and_a_sentence_says_so(sighted: Writer) -> None:
    page = sighted.page
    held: list[Paused] = []
    pause(page, "*/v1/srb/stories/*/media", held.append)
    give(page, CAT)
    wait_for_event(page, lambda: len(held) == 1, "the picture is on its way")
    page.evaluate("desk.newStory()")
    held[0].continue_()
    expect(notice(page)).to_contain_text("another story was opened")
    assert full_text(page) == ""


def test_words_follow_a_wide_picture_at_once(sighted: Writer) -> None:
    give_shown(sighted.page, png(600, 300, seed=5))
    picture = pictures(sighted.page)
    place = sighted.page.locator("srb-manuscript .picture")
    boxes = [each.bounding_box() for each in (picture, place)]
    assert boxes[0]
    assert boxes[1]
    assert boxes[0]["width"] == pytest.approx(boxes[1]["width"], abs=1)


def test_a_story_is_exported_while_its_pictures_cannot_be_read(sighted: Writer, troubles: Troubles) -> None:
    troubles.allow("Failed to load resource|ERR_FAILED")
    page = sighted.page
    give_shown(page)
    sighted.write(" words").wait_until_saved()
    page.route("**/media/*", lambda route: route.abort())
    page.evaluate("desk.rounds.context.media.known.clear()")
    dialog = sighted.open_dialog("formats")
    with page.expect_download() as download:
        dialog.get_by_role("button", name="SRB story").click()
    assert "words" in download.value.path().read_text()
    expect(dialog).to_contain_text("without 1 picture or sound")


def test_on_a_phone_pictures_are_in_the_menu_and_no_button_covers_another(make_page: MakePage, seer: Server) -> None:
    page = make_page(viewport={"width": 360, "height": 780}, has_touch=True, is_mobile=True)
    writer_of(page, seer)
    page.get_by_role("button", name="More", exact=True).click()
    expect(page.get_by_role("button", name="Add a picture")).to_be_visible()
    page.keyboard.press("Escape")
    boxes = page.evaluate(
        """[...document.querySelectorAll('srb-header .go :is(button, select)')].filter((each) => each.offsetWidth)
        .map((each) => each.getBoundingClientRect()).map(({ left, right }) => [left, right])"""
    )
    assert all(right <= left + 1 for (_, right), (left, _) in pairwise(boxes))
    assert boxes[-1][1] <= 360


def give_sound(page: Page, data: bytes) -> str:
    """Keep a sound with the open story, put its marker into the text, and return the marker."""
    medium = hashlib.sha256(data).hexdigest()[:32]
    keep = "(file) => desk.withRounds((rounds) => rounds.context.media.takeIn(file))"
    assert page.evaluate(keep, {medium: {"data": b64encode(data).decode()}}) == []
    marker = f"![bell.wav](srb:{medium})"
    page.evaluate("(marker) => desk.manuscript.insert(marker)", marker)
    return marker


PLAYER = "document.querySelector('srb-manuscript').shadowRoot.querySelector('audio')"


def test_a_sound_is_loaded_when_it_is_played_and_has_a_player(writer: Writer) -> None:
    page = writer.page
    marker = give_sound(page, wav(0.5))
    writer.wait_until_saved()
    writer.reload()
    asked = asked_for(page)
    button = page.get_by_role("button", name="Play bell.wav")
    expect(button).to_be_visible()
    assert asked == []
    button.click()
    writer.wait(f"{PLAYER}?.duration > 0.4")
    assert page.evaluate(f"{PLAYER}.controls")
    assert len(asked) == 1
    assert full_text(page) == marker
    page.evaluate("document.querySelector('srb-manuscript').focus()")
    writer.press("Control+a", "Delete")
    expect(page.locator("srb-manuscript audio")).to_have_count(0)


def test_a_sound_is_no_barrier_and_is_played_by_keyboard(make_page: MakePage, slow: Server) -> None:
    page = make_page(bypass_csp=True)  # axe sets styles of its own
    writer = Writer(page, slow.url)
    give_sound(page, wav(0.5))
    assert violations(page) == []
    page.get_by_role("button", name="Play bell.wav").press("Enter")
    writer.wait(f"{PLAYER}?.duration > 0.4")
    assert violations(page) == []


def test_a_sound_that_is_nowhere_says_so_when_it_is_played(writer: Writer, troubles: Troubles) -> None:
    troubles.expect("status of 404")
    page = writer.page
    page.evaluate("(marker) => desk.manuscript.insert(marker)", GONE.replace("gone", "gone.mp3"))
    page.get_by_role("button", name="Play gone.mp3").click()
    expect(page.get_by_role("img", name="Sound, not here: gone.mp3")).to_be_visible()
    writer.press("Control+a", "Delete").wait_until_saved()  # other tests' pages open the latest story


def test_exports_for_readers_have_the_pictures_as_every_program_shows_them(
    sighted: Writer, troubles: Troubles, tmp_path: Path
) -> None:
    troubles.allow("status of 404")
    page = sighted.page
    give_shown(page)
    give(page, bmp(6, 4), name="old.bmp", kind="image/bmp")
    expect(pictures(page)).to_have_count(2)
    sighted.write(" words")
    dialog = sighted.open_dialog("formats")
    found = {}
    for label in ("Word", "EPUB", "Markdown"):
        with page.expect_download() as download:
            dialog.get_by_role("button", name=label, exact=True).click()
        found[label] = tmp_path / label
        download.value.save_as(found[label])
    for label in ("Word", "EPUB"):
        with ZipFile(found[label]) as archive:
            names = [name for name in archive.namelist() if "picture-" in name]
            files = [archive.read(name) for name in names]
        assert [name.rpartition("/")[2] for name in names] == ["picture-1.png", "picture-2.png"]
        assert files[0] == CAT
        assert (files[1][:4], files[1][16:24]) == (b"\x89PNG", bytes([0, 0, 0, 6, 0, 0, 0, 4]))
    markdown = found["Markdown"].read_text()
    assert f"data:image/png;base64,{b64encode(CAT).decode()}\n" in markdown
    before = page.evaluate("desk.story.id")
    tale = found["Markdown"].rename(tmp_path / "tale.md")
    dialog.get_by_label("Choose files").set_input_files(tale)
    sighted.wait("desk.story.id !== argument", before)
    expect(pictures(page)).to_have_count(1)  # a BMP has only its marker in Markdown
    sighted.wait_until_saved()
    page.evaluate("() => desk.removeStory(desk.story.id)")  # other tests' pages open the latest story


def test_a_jpeg_that_is_shown_turned_is_kept_as_it_is_shown(sighted: Writer) -> None:
    page = sighted.page
    upright: str = page.evaluate("""async () => {
        const canvas = Object.assign(document.createElement("canvas"), { width: 40, height: 20 });
        canvas.getContext("2d").fillRect(0, 0, 40, 20);
        const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg"));
        return btoa(String.fromCharCode(...new Uint8Array(await blob.arrayBuffer())));
    }""")
    data = b64decode(upright)
    tiff = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    exif = b"\xff\xe1" + (8 + len(tiff)).to_bytes(2) + b"Exif\0\0" + tiff
    give_shown(page, data[:2] + exif + data[2:], name="turned.jpg", kind="image/jpeg")
    size = page.evaluate("""async () => {
        const [bytes] = desk.rounds.context.media.known.values();
        const { width, height } = await createImageBitmap(new Blob([bytes]), { imageOrientation: "none" });
        return [width, height];
    }""")
    assert size == [20, 40]
    give_shown(page, data, count=2, name="upright.jpg", kind="image/jpeg")
    assert page.evaluate("[...desk.rounds.context.media.known.values()][1].length") == len(data), "kept as it is"
