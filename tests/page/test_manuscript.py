"""The manuscript on its own: one history over typing and taking, plain text alone, colours by authorship, long texts."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.needs import long
from tests.page.accessibility import violations
from tests.page.conftest import MakePage
from tests.page.parts_alone import open_harness
from tests.processes import wait_for

MODEL, EDIT = ".cm-line .by-model", ".cm-line .by-edit"
HTML = "<b onclick=alert(1)>bold</b> <img src=x onerror=alert(1)><script>alert(1)</script>"


@pytest.fixture
def page(make_page: MakePage) -> Page:
    page = make_page()
    open_harness(page, "manuscript")
    return page


def text(page: Page) -> str:
    return str(page.evaluate("manuscript.text"))


def content(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Manuscript")


def expect_marked(page: Page, mark: str, texts: list[str]) -> None:
    """Wait until these parts of the text have the mark: what was typed is drawn in a later frame."""
    wait_for(lambda: page.locator(mark).all_inner_texts() == texts, f"{texts} have the mark {mark}")


def take(page: Page, taken: str) -> None:
    page.evaluate("(taken) => desk.take(taken)", taken)


def transfer(page: Page, event: str, plain: str, html: str) -> None:
    """Paste or drop a text that is also there as HTML."""
    page.evaluate(
        """([type, plain, html]) => {
          const data = new DataTransfer();
          data.setData("text/plain", plain);
          data.setData("text/html", html);
          const target = manuscript.shadowRoot.querySelector(".cm-content");
          const box = target.getBoundingClientRect();
          const at = { bubbles: true, cancelable: true, clientX: box.x + 30, clientY: box.y + 30 };
          target.dispatchEvent(type === "paste" ? new ClipboardEvent(type, { ...at, clipboardData: data })
            : new DragEvent(type, { ...at, dataTransfer: data }));
        }""",
        [event, plain, html],
    )


def test_typing_and_taking_are_undone_in_their_order_and_done_again(page: Page) -> None:
    steps, heads = [""], ["n0"]
    for typed, taken in [("Once upon a time,", " there lived a keeper."), (" He was 7.", " No, 8.")]:
        page.keyboard.type(typed)
        steps.append(text(page))
        heads.append(page.evaluate("desk.head.node"))
        take(page, taken)
        steps.append(text(page))
        heads.append(page.evaluate("desk.head.node"))
    for i in (3, 2, 1, 0):
        page.keyboard.press("Control+z")
        assert (text(page), page.evaluate("desk.head.node")) == (steps[i], heads[i])
    page.keyboard.press("Control+z")
    assert text(page) == ""
    for i, key in [(1, "Control+Shift+Z"), (2, "Control+y"), (3, "Control+Shift+z"), (4, "Control+Shift+Z")]:
        page.keyboard.press(key)
        assert (text(page), page.evaluate("desk.head.node")) == (steps[i], heads[i])
    assert steps[4] == "Once upon a time, there lived a keeper. He was 7. No, 8."


def test_acts_outside_of_the_text_are_undone_between_what_was_typed(page: Page) -> None:
    page.evaluate("window.done = []")
    page.keyboard.type("One")
    page.evaluate("manuscript.record(() => done.push('unprune'), () => done.push('prune'))")
    page.keyboard.type(" two")
    page.keyboard.press("Control+z")
    assert (text(page), page.evaluate("done")) == ("One", [])
    page.keyboard.press("Control+z")
    assert (text(page), page.evaluate("done")) == ("One", ["unprune"])
    page.keyboard.press("Control+z")
    assert text(page) == ""
    for _ in range(3):
        page.keyboard.press("Control+y")
    assert (text(page), page.evaluate("done")) == ("One two", ["unprune", "prune"])


def test_what_is_typed_after_an_undo_replaces_what_was_undone(page: Page) -> None:
    page.keyboard.type("One")
    take(page, " two")
    page.keyboard.press("Control+z")
    page.keyboard.type(" three")
    assert page.evaluate("manuscript.redo()") is False
    page.keyboard.press("Control+z")
    assert text(page) == "One"


def test_each_paragraph_is_undone_for_itself(page: Page) -> None:
    page.keyboard.type("One")
    page.keyboard.press("Enter")
    page.keyboard.type("Two")
    page.keyboard.press("Control+z")
    assert text(page) == "One"


def test_digits_are_text(page: Page) -> None:
    page.keyboard.type("1234567890")
    assert text(page) == "1234567890"


def test_the_keys_of_the_page_pass_through_the_manuscript(page: Page) -> None:
    page.evaluate(
        """() => {
          window.passed = [];
          document.addEventListener("keydown", (event) => passed.push([event.code, event.defaultPrevented]));
        }"""
    )
    page.keyboard.type("One")
    page.evaluate("passed.length = 0")
    page.evaluate("document.addEventListener('keydown', (event) => event.code === 'KeyS' && event.preventDefault())")
    for key in ("Control+Enter", "Escape", "F6", "Control+s"):
        page.keyboard.press(key)
    codes = [code for code, _ in page.evaluate("passed") if not code.startswith("Control")]
    assert codes == ["Enter", "Escape", "F6", "KeyS"]
    assert not any(prevented for _, prevented in page.evaluate("passed"))
    assert text(page) == "One"


@pytest.mark.parametrize("event", ["paste", "drop"])
def test_html_is_pasted_and_dropped_as_its_plain_text(page: Page, event: str) -> None:
    transfer(page, event, "bold\r\nand plain", "<b>bold</b><br>and plain")
    assert text(page) == "bold\nand plain"
    assert page.evaluate("manuscript.shadowRoot.querySelectorAll('b, .cm-content img, script').length") == 0


def test_markup_in_a_models_text_is_shown_as_written(page: Page) -> None:
    take(page, HTML)
    expect(content(page)).to_have_text(HTML)
    assert page.evaluate("manuscript.shadowRoot.querySelectorAll('b, .cm-line img, script').length") == 0


def test_a_megabyte_is_pasted_at_once_and_undone_at_once(page: Page) -> None:
    pasted = "A long line of a long book, as they are in such books.\n" * 20_000
    page.keyboard.type("Before. ")
    transfer(page, "paste", pasted, "")
    page.keyboard.type("After.")
    assert text(page) == f"Before. {pasted}After."
    assert page.evaluate("manuscript.shadowRoot.querySelectorAll('*').length") < 500
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    assert text(page) == "Before. "


def test_control_characters_are_shown_and_keep_their_places(page: Page) -> None:
    taken = "a\rb\x1b[31mc\u202ed\u2068e\u200bf"
    take(page, taken)
    assert text(page) == taken
    expect(page.locator(".cm-specialChar")).to_have_count(5)
    page.keyboard.type("!")
    assert page.evaluate("desk.story.text(desk.head.node)") == f"{taken}!"


def test_the_models_words_are_tinted_and_the_persons_are_not(page: Page) -> None:
    page.keyboard.type("Once upon a time,")
    take(page, " there lived a keeper.")
    page.keyboard.type(" The end.")
    expect_marked(page, MODEL, [" there lived a keeper."])
    expect_marked(page, EDIT, [])


def test_words_typed_into_the_models_are_underlined_at_once_and_stay_so(page: Page) -> None:
    page.keyboard.type("Once,")
    take(page, " there lived a keeper of a light.")
    page.evaluate("manuscript.select(20, 26)")
    page.keyboard.type("sailor")
    page.keyboard.press("Control+End")
    page.keyboard.type(" And 1 more.")
    for _ in range(2):
        expect_marked(page, MODEL, [" there lived a ", " of a light."])
        expect_marked(page, EDIT, ["sailor"])
        page.evaluate("manuscript.colour(desk.story.pieces(desk.head.node))")


def test_undo_brings_the_models_colour_back(page: Page) -> None:
    take(page, "There lived a keeper.")
    page.evaluate("manuscript.select(6, 12)")
    page.keyboard.press("Delete")
    page.evaluate("manuscript.select(6)")
    page.keyboard.type("was ")
    expect_marked(page, MODEL, ["There ", "a keeper."])
    while page.evaluate("manuscript.undo()") and text(page) != "There lived a keeper.":
        pass
    expect_marked(page, MODEL, ["There lived a keeper."])
    expect_marked(page, EDIT, [])


def test_of_a_book_with_2000_pieces_only_what_is_in_view_is_in_the_document(page: Page) -> None:
    page.evaluate(
        """() => {
          const text = "The keeper climbed the stairs again, as on every evening of that year.\\n\\n".repeat(8500);
          const length = Math.floor(text.length / 2000);
          const pieces = Array.from({ length: 2000 }, (_, i) => ({
            from: i * length, to: i === 1999 ? text.length : (i + 1) * length, node: "book", by: i % 2 ? "model" : "person",
          }));
          desk.story.nodes.set("book", { text, pieces });
          desk.head = { node: "book", at: text.length };
          desk.load();
        }"""
    )
    assert len(text(page)) > 600_000
    page.keyboard.type("Now.")
    assert text(page).endswith("year.\n\nNow.")
    assert page.evaluate("manuscript.shadowRoot.querySelectorAll('*').length") < 500
    page.evaluate("manuscript.select(300000)")
    expect(page.locator(MODEL).first).to_be_visible()
    page.keyboard.type("Here.")
    assert text(page)[300_000:300_005] == "Here."


def test_caret_and_scroll_are_where_the_writer_left_them(page: Page) -> None:
    book = "A line of the book.\n" * 2000
    load = """(book) => {
      desk.story.nodes.set("book", { text: book, pieces: [{ from: 0, to: book.length, node: "book", by: "import" }] });
      desk.head = { node: "book", at: book.length };
      desk.load();
    }"""
    top = "manuscript.shadowRoot.querySelector('.cm-scroller').scrollTop"
    page.evaluate(load, book)
    assert page.evaluate("manuscript.caret()") == len(book)
    page.wait_for_function(f"() => {top} > 50000")
    page.evaluate("manuscript.select(20000)")
    page.wait_for_function(f"() => {top} < 40000")
    before = page.evaluate(  # the editor measures lines as it comes to them
        f"""async () => {{
          const frame = () => new Promise(requestAnimationFrame);
          for (let last = -1; last !== {top}; await frame(), await frame(), await frame()) last = {top};
          return {top};
        }}"""
    )
    page.reload()
    page.wait_for_function("() => window.ready === true")
    page.evaluate(load, book)
    page.wait_for_function(f"() => Math.abs({top} - {before}) < 30")  # one line
    assert page.evaluate("manuscript.caret()") == 20_000


def test_font_size_and_measure_follow_the_settings(page: Page) -> None:
    page.evaluate("desk.setSetting('font', 'mono'); desk.setSetting('size', 24); desk.setSetting('measure', 40)")
    page.keyboard.type("word " * 40)
    scroller = page.locator(".cm-scroller")
    assert "Mono" in scroller.evaluate("(element) => getComputedStyle(element).fontFamily")
    assert scroller.evaluate("(element) => getComputedStyle(element).fontSize") == "24px"
    assert content(page).evaluate("(element) => element.offsetHeight > 5 * 24 && element.offsetWidth < 800")


def test_ctrl_f_finds_and_escape_in_the_panel_closes_it(page: Page) -> None:
    page.evaluate("window.wanted = null")
    page.evaluate(
        "document.addEventListener('keydown', (event) => { window.wanted = manuscript.wantsEscape(event); }, true)"
    )
    page.keyboard.type("The keeper of the light.")
    page.keyboard.press("Control+f")
    page.keyboard.type("light")
    expect(page.locator(".cm-searchMatch")).to_have_text("light")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert page.evaluate("wanted") is True
    expect(page.get_by_label("Find")).to_have_count(0)
    page.keyboard.press("Escape")
    assert page.evaluate("wanted") is False
    assert page.evaluate("manuscript.caret()") == len("The keeper of the light")


def test_a_click_beside_the_text_puts_the_caret_into_its_line(page: Page) -> None:
    page.keyboard.type("First line\nSecond line")
    box = page.locator(".cm-line").last.bounding_box()
    assert box is not None
    page.mouse.click(20, box["y"] + box["height"] / 2)
    assert page.evaluate("manuscript.caret()") == len("First line\n")
    page.keyboard.type("The ")
    assert text(page) == "First line\nThe Second line"


@pytest.mark.parametrize("scheme", ["light", *long("dark")])
@pytest.mark.parametrize(("width", "height"), [(1440, 900), *long((412, 839))])
def test_axe_finds_nothing_wrong(make_page: MakePage, scheme: str, width: int, height: int) -> None:
    page = make_page(bypass_csp=True, color_scheme=scheme, viewport={"width": width, "height": height})
    open_harness(page, "manuscript")
    assert violations(page) == []
    page.keyboard.type("Once,")
    take(page, " there lived a keeper of a light.\u202e")
    page.evaluate("manuscript.select(20, 26)")
    page.keyboard.type("sailor")
    page.keyboard.press("Control+f")
    page.keyboard.type("light")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_on_android_a_story_that_is_opened_can_be_written(make_page: MakePage, browser: Browser) -> None:
    """There the editor types through an EditContext, which must not keep the text of the story before."""
    phone = make_page(
        viewport={"width": 412, "height": 839},
        has_touch=True,
        is_mobile=True,
        user_agent=f"Mozilla/5.0 (Linux; Android 14) Chrome/{browser.version} Mobile Safari/537.36",
    )
    open_harness(phone, "manuscript")
    phone.evaluate("manuscript.load('A long story of somebody.', [], {node: 'n0', at: 25})")
    phone.evaluate("manuscript.load('', [], {node: 'n0', at: 0})")
    phone.keyboard.type("Once")
    assert phone.evaluate("manuscript.shadowRoot.querySelector('.cm-content').editContext") is not None
    assert text(phone) == "Once"
