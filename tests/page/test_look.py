"""How the page looks: its face, its inks and its measures."""

from __future__ import annotations

from itertools import product

import pytest
from playwright.sync_api import expect

from tests.page.accessibility import PRACTICES, violations
from tests.page.conftest import MakePage
from tests.page.paused import Paused, pause
from tests.page.writer import START, Writer
from tests.servers import Server

FACES = "[...document.fonts].filter((face) => face.status === 'loaded').map((face) => face.family)"


def test_text_and_cards_are_set_in_the_face_that_the_page_brings(writer: Writer) -> None:
    page = writer.write(START).go().press("Escape").wait_for_end().page
    writer.wait(f"{FACES}.some((family) => /literata/i.test(family))")
    text = page.locator("srb-manuscript .cm-content").evaluate("(each) => getComputedStyle(each).fontFamily")
    assert text.split(",")[0].lower() == "literata"
    assert writer.cards.first.locator(".body").evaluate("(each) => getComputedStyle(each).fontFamily") == text


PALETTE = [
    *("--paper", "--pane", "--card", "--line", "--ink", "--dim", "--accent", "--on-accent"),
    *("--model", "--model-ink", "--edit", "--warn", "--good", "--focus"),
]
NO_COLOURS = """(names) => [...document.querySelectorAll("*")].flatMap((each) => {
  const style = getComputedStyle(each);
  return names.map((name) => [name, style.getPropertyValue(name)]).filter(([, value]) => !CSS.supports("color", value))
    .map(([name, value]) => `${name} is ${value} at ${each.localName}.${each.className}`);
})"""


def test_a_colour_of_the_palette_is_a_colour_everywhere(writer: Writer) -> None:
    page = writer.write(START).go().page
    assert page.evaluate(NO_COLOURS, PALETTE) == []


LONGEST = """(selector) => Math.max(...[...document.querySelectorAll(selector)].map((each) => {
  const probe = each.appendChild(document.createElement("span"));
  probe.style.cssText = "position: absolute; width: var(--measure)";
  const measure = probe.getBoundingClientRect().width;
  probe.remove();
  return each.getBoundingClientRect().width / measure;
}))"""


@pytest.mark.parametrize(("n", "width", "share"), [(1, 1920, 0.46), (2, 2560, 0.25)])
def test_no_line_of_a_branch_is_longer_than_one_of_the_text(writer: Writer, n: int, width: int, share: float) -> None:
    page = writer.page
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("(share) => document.getElementById('desk').style.setProperty('--text-share', share)", share)
    writer.set(n=n, max_tokens=40).write(START).go().wait_for_end()
    assert 0.9 < page.evaluate(LONGEST, ".card .body") < 1.01  # there is room for more
    page.get_by_role("button", name="Tree").click()
    expect(page.locator(".tree .text").first).to_be_visible()
    assert page.evaluate(LONGEST, ".tree .text") < 1.01


def test_the_text_is_checked_for_spelling_and_the_window_bears_its_title(writer: Writer) -> None:
    text = writer.page.get_by_role("textbox", name="Manuscript")
    for name, value in {"spellcheck": "true", "autocorrect": "on", "autocapitalize": "sentences"}.items():
        expect(text).to_have_attribute(name, value)
    writer.page.evaluate("desk.setTitle('The lighthouse')")
    expect(writer.page).to_have_title("The lighthouse · SRB")


@pytest.mark.parametrize("place", ["formats", "settings"])
def test_the_text_is_in_the_storys_language_or_else_in_the_browsers(writer: Writer, place: str) -> None:
    text = writer.page.get_by_role("textbox", name="Manuscript")
    browsers = writer.page.evaluate("navigator.language")
    expect(text).to_have_attribute("lang", browsers)
    writer.write("Es war einmal.").page.evaluate("(place) => desk.openDialog(place, { section: 'page' })", place)
    language = writer.page.get_by_role("dialog").get_by_label("Language", exact=True)
    language.fill("deutsch?")
    language.press("Tab")
    expect(writer.page.get_by_role("alert").filter(has_text="“deutsch?” is no language")).to_be_visible()
    expect(text).to_have_attribute("lang", browsers)
    language.fill("de-ch")
    writer.page.evaluate("desk.tell('story')")  # as when the story was saved, or another window has changed it
    writer.page.evaluate("document.querySelector('dialog[open] srb-language').updateComplete")
    expect(language).to_have_value("de-ch")
    language.press("Tab")
    expect(text).to_have_attribute("lang", "de-CH")
    writer.press("Escape")
    writer.wait_until_saved().reload()
    expect(text).to_have_attribute("lang", "de-CH")
    writer.page.evaluate("desk.newStory()")
    expect(text).to_have_attribute("lang", browsers)


def test_who_wrote_what_is_shown_only_to_those_who_ask(writer: Writer) -> None:
    page = writer.write(START).go().press("Escape").wait_for_end().page
    writer.to_cards().press("Shift+Digit1").wait("document.activeElement && !desk.isRunning")
    ink = "(each) => getComputedStyle(each).color"
    words, line = page.locator(".cm-line .by-model").first, page.locator(".cm-line").first
    assert words.evaluate(ink) == line.evaluate(ink)
    writer.set(authors=True)
    assert words.evaluate(ink) != line.evaluate(ink)
    assert page.get_by_text("the model's words").is_visible()


CROSSED = """() => {
  const all = [...document.querySelectorAll("srb-header button, srb-header select, srb-header .facts")]
    .filter((each) => each.checkVisibility({ visibilityProperty: true }) && each.getClientRects().length);
  const named = all.map((each) => [each.getAttribute("aria-label") ?? each.className, each.getBoundingClientRect()]);
  const found = named.filter(([, box]) => box.right > innerWidth + 1 || box.left < -1).map(([name]) => `${name} is outside`);
  for (const [index, [name, a]] of named.entries())
    for (const [other, b] of named.slice(index + 1))
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
        found.push(`${name} lies over ${other}`);
  return found;
}"""


@pytest.mark.parametrize("title", ["Short", "The keeper of the light that nobody had lit for eleven years"])
def test_nothing_in_the_header_lies_over_another_at_any_width(writer: Writer, title: str) -> None:
    page = writer.write("One. Two").page
    page.evaluate("(title) => desk.setTitle(title)", title)
    expect(page.locator("srb-header .title")).to_contain_text(title)
    for from_, to, words in ((8, 8, "Continue"), (4, 4, "Continue here"), (0, 4, "Revise …")):
        page.set_viewport_size({"width": 1440, "height": 900})
        page.evaluate("([from, to]) => desk.manuscript.select(from, to)", [from_, to])
        expect(page.get_by_role("button", name=words, exact=True)).to_be_visible()
        for width in [320, 360, 412, 480, 640, 699, 701, 720, 768, 790, 900, 1024, 1280, 1920]:
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(CROSSED) == [], f"at {width} px, with {words}"


def test_the_menu_gives_the_focus_back_after_its_dialog(writer: Writer) -> None:
    page = writer.page
    more = page.locator("srb-header").get_by_role("button", name="More")
    for name in ("Import and export", "Settings", "Keys and help"):
        more.click()
        page.get_by_role("button", name=name).click()
        expect(page.get_by_role("button", name=name)).to_be_hidden()
        expect(page.locator("dialog[open]")).to_be_visible()
        page.keyboard.press("Escape")
        expect(more).to_be_focused()


def test_saving_moves_nothing_in_the_header(writer: Writer) -> None:
    page = writer.page
    place = "document.querySelector('srb-header .words').getBoundingClientRect().x"
    page.evaluate("desk.setTitle('The lighthouse')")
    writer.write(START).wait_until_saved()
    writer.wait("document.querySelector('srb-header .saved').textContent === 'saved'")
    saved = page.evaluate(place)
    held: list[Paused] = []
    pause(page, "*/v1/srb/stories/*", held.append)
    writer.write(" a").wait("document.querySelector('srb-header .saved').textContent === 'saving …'")
    assert page.evaluate(place) == saved


PARAGRAPHS = "\n\n".join(["The keeper climbed the stairs again, as on every evening of that long year. " * 8] * 12)
CARET = """() => {
  const manuscript = document.querySelector("srb-manuscript");
  const box = manuscript.shadowRoot.querySelector(".cm-scroller").getBoundingClientRect();
  const caret = manuscript.rect(manuscript.caret());
  return caret !== null && caret.bottom <= box.bottom + 1 && caret.top >= box.top - 1;
}"""


def write_long_text(writer: Writer) -> None:
    writer.page.keyboard.insert_text(PARAGRAPHS)
    writer.page.wait_for_function(CARET)
    writer.wait_until_saved()


def test_after_a_reload_the_line_that_was_written_is_in_view(writer: Writer) -> None:
    write_long_text(writer)
    writer.page.wait_for_function("() => (localStorage.getItem('srb.places') ?? '').includes('into')")
    writer.reload()
    writer.page.wait_for_function(CARET)


def test_the_page_itself_is_never_scrolled(writer: Writer) -> None:
    page = writer.write(START).go().page
    below = (
        "document.body.append(Object.assign(document.createElement('p'), { style: 'position: absolute; top: 3000px' }, "
    )
    below += "{ textContent: 'below' }))"
    for what in ("", below):  # nothing lies below the page; and if something did
        page.evaluate(f"{what}; scrollTo(0, 100); document.documentElement.scrollTop = 100")
        assert page.evaluate("[document.documentElement.scrollTop, document.body.scrollTop]") == [0, 0]


def test_the_manuscript_alone_is_printed_and_all_of_it(writer: Writer) -> None:
    write_long_text(writer)
    page = writer.page
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    shown = page.evaluate("document.body.innerText")
    assert "".join(page.locator("#print p").all_inner_texts()).count("climbed the stairs") == 8 * 12
    assert "Continue" not in shown
    assert page.locator("#print p").last.is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("#print > *").count() == 0


def test_the_line_that_is_written_stays_above_messages(writer: Writer) -> None:
    page = writer.page
    write_long_text(writer)
    page.evaluate(
        "desk.notice('The card stands behind what you typed meanwhile.', 'info', { label: 'Undo', run() {} })"
    )
    message = page.locator("srb-banner p")
    expect(message).to_be_visible()
    writer.press(*12 * ["Enter"]).write("And then")  # the text is at the lower end now
    page.wait_for_function(CARET)
    caret = page.evaluate("desk.manuscript.rect(desk.manuscript.caret()).bottom")
    assert caret <= message.evaluate("(each) => each.getBoundingClientRect().top")


def test_a_notice_ends_with_the_story_in_which_it_came(writer: Writer) -> None:
    page = writer.page
    for kind in ("info", "error"):
        page.evaluate("(kind) => desk.notice('This model takes text only.', kind)", kind)
        notice = page.get_by_text("This model takes text only.")
        expect(notice).to_be_visible()
        page.evaluate("(kind) => desk.setTitle(kind)", kind)
        expect(page.locator("srb-header .title")).to_contain_text(kind)
        expect(notice).to_be_visible()
        page.evaluate("desk.newStory(), document.querySelector('srb-banner').updateComplete")
        assert notice.count() == 0, "it does not wait for its time"


@pytest.mark.parametrize(("kind", "stays"), [("info", False), ("error", True)])
def test_a_notice_goes_by_itself_and_an_error_stays(make_page: MakePage, slow: Server, kind: str, stays: bool) -> None:
    page = Writer(make_page(alone=True), slow.url).page
    page.clock.install()
    page.evaluate("(kind) => desk.notice('This model takes text only.', kind)", kind)
    notice = page.get_by_text("This model takes text only.")
    expect(notice).to_be_visible()
    page.clock.fast_forward(60_000)
    expect(notice).to_have_count(1 if stays else 0)


def test_a_message_that_is_answered_gives_the_focus_back(writer: Writer) -> None:
    page = writer.set(n=2, max_tokens=4).write(START).go().wait_for_end().page
    for place, button in product(("srb-manuscript", "srb-branches .card"), ("Undo", "Close this message")):
        page.locator(place).first.focus()
        page.evaluate("desk.notice('Something was done.', 'error', { label: 'Undo', run() {} })")
        page.locator("srb-banner").get_by_role("button", name=button).click()
        expect(page.get_by_text("Something was done.")).to_have_count(0)
        expect(page.locator(place).first).to_be_focused()


def test_no_dialog_begins_with_the_way_out_of_it(writer: Writer) -> None:
    writer.write(START)
    for name in ("help", "formats", "task", "goals", "stories", "settings", "share"):
        dialog = writer.open_dialog(name)
        expect(dialog.locator(":focus")).to_have_count(1)
        assert not dialog.locator(":focus").evaluate("(each) => each.matches('.close')"), name
        writer.press("Escape")
        expect(dialog).to_be_hidden()


def test_signs_of_headings_hang_in_the_margin_and_levels_differ(writer: Writer) -> None:
    page = writer.write("# One\n\n## Two\n\n### Three\n\nWords.").page
    lefts = page.locator("srb-manuscript .cm-line").evaluate_all(
        """(lines) => lines.filter((line) => line.textContent).map((line) => {
          const range = document.createRange();
          const words = [...line.childNodes].filter((node) => !node.classList?.contains("sign")).at(-1);
          range.selectNodeContents(words);
          return [range.getBoundingClientRect().left, parseFloat(getComputedStyle(line).fontSize)];
        })"""
    )
    assert max(left for left, _ in lefts) - min(left for left, _ in lefts) < 1.5, "all words begin at one edge"
    sizes = [size for _, size in lefts]
    assert sizes == sorted(set(sizes), reverse=True), "each level is smaller than the one above"


def test_typed_signs_are_those_of_the_language_and_undo_gives_plain_ones_back(writer: Writer) -> None:
    page = writer.page
    page.evaluate("desk.setMeta('language', 'de')")
    writer.write('"Geh", sagte sie. "').expect_text("„Geh“, sagte sie. „")
    writer.press("Control+z").expect_text('„Geh“, sagte sie. "')
    writer.press("Control+Shift+z").expect_text("„Geh“, sagte sie. „")
    writer.wait_until_saved().reload()
    writer.expect_text("„Geh“, sagte sie. „")
    writer.write(" Sie geht -- oder...").expect_text("„Geh“, sagte sie. „ Sie geht – oder…")
    writer.press("Control+z").expect_text("„Geh“, sagte sie. „ Sie geht – oder...")
    writer.press("Control+Shift+z")
    writer.set(typographic_quotes=False).write('"').expect_text('„Geh“, sagte sie. „ Sie geht – oder…"')


def test_in_forced_colours_a_common_beginning_is_not_filled_as_a_selection_is(
    make_page: MakePage, slow: Server
) -> None:
    writer = Writer(make_page(forced_colors="active"), slow.url).set(n=4, max_tokens=12, stop_at="")
    writer.write("Once").go().wait_for_end()
    texts = writer.page.locator("srb-branches .card .text")
    assert texts.evaluate_all("(all) => all.map((each) => getComputedStyle(each).forcedColorAdjust)") == ["none"] * 4


OPENED = ["stories", "settings", "formats", "help", "task"]  # by a button each
ACTIONS = ["Ask the story", "Memory", "Chapters"]  # panels, by the list of all actions


def test_the_whole_page_and_what_it_opens_keep_the_best_practices(make_page: MakePage, slow: Server) -> None:
    writer = Writer(make_page(bypass_csp=True), slow.url).set(max_tokens=8, stop_at="")
    page = writer.write(START).go().wait_for_end().page
    # The handle between two panes is a control between landmarks, and belongs to none.
    found = {"": violations(page, PRACTICES, "#divider")}
    for name in OPENED:
        writer.open_dialog(name)
        found[name] = violations(page, PRACTICES, "#divider")
        page.keyboard.press("Escape")
        expect(page.locator(f"srb-{name} dialog:is([open], :popover-open)")).to_have_count(0)
    for words in ACTIONS:
        writer.choose_action(words)
        found[words] = violations(page, PRACTICES, "#divider")
        page.keyboard.press("Escape")
        page.evaluate("document.querySelector('srb-manuscript').focus()")
    assert {what: lines for what, lines in found.items() if lines} == {}


def test_from_the_text_the_next_stop_is_the_cards(writer: Writer) -> None:
    page = writer.write(START).set(max_tokens=8).go().wait_for_end().page
    writer.to_cards().to_text()
    page.keyboard.press("Tab")
    writer.wait("document.querySelector('srb-branches').contains(document.activeElement)")
