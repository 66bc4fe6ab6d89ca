"""The tree of a story: the outline with its keys, and the map."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.needs import long
from tests.page.accessibility import violations
from tests.page.conftest import MakePage
from tests.page.parts_alone import open_harness


@pytest.fixture
def page(make_page: MakePage) -> Page:
    page = make_page()
    open_harness(page, "tree")
    return page


def opened(page: Page) -> Locator:
    """Open the outline; return its tree."""
    page.get_by_role("button", name="Outline").click()
    tree = page.get_by_role("tree")
    expect(tree).to_be_visible()
    tree.focus()
    return tree


def current(page: Page) -> str:
    """Return the node that is chosen in the outline."""
    chosen: str = page.locator("srb-outline [aria-selected=true]").get_attribute("id") or ""
    return chosen.removeprefix("outline-")


def head(page: Page) -> Any:
    return page.evaluate("desk.head.node")


def test_the_outline_has_a_row_for_each_node_when_every_fork_is_open(page: Page) -> None:
    tree = opened(page)
    page.evaluate("""() => {
      const outline = document.querySelector("srb-outline");
      for (const id of desk.story.nodes.keys()) outline.setFork(id, true);
    }""")
    expect(tree.get_by_role("treeitem")).to_have_count(page.evaluate("desk.story.nodes.size"))


def test_arrows_walk_the_outline_and_enter_opens_a_branch_and_going_back_restores(page: Page) -> None:
    opened(page)
    before, text = head(page), page.evaluate("desk.text")
    assert current(page) == before
    page.keyboard.press("ArrowLeft")
    parent = page.evaluate("(id) => desk.story.nodes.get(id).parent", before)
    expect(page.locator(f"#outline-{parent}")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    other = current(page)
    assert other not in (before, parent)
    page.keyboard.press("Enter")
    assert head(page) == other
    assert page.evaluate("desk.text === desk.story.text(desk.head.node)")
    page.get_by_role("button", name="Back to where I was").click()
    assert head(page) == before
    assert page.evaluate("desk.text") == text


def test_a_fork_is_closed_and_opened_by_arrows(page: Page) -> None:
    tree = opened(page)
    fork = page.evaluate("desk.story.path(desk.head.node).findLast((id) => desk.story.children(id).length > 1)")
    page.evaluate("(id) => document.querySelector('srb-outline').show(id)", fork)
    row = page.locator(f"#outline-{fork}")
    expect(row).to_have_attribute("aria-expanded", "true")
    count = tree.get_by_role("treeitem").count()
    page.keyboard.press("ArrowLeft")
    expect(row).to_have_attribute("aria-expanded", "false")
    assert tree.get_by_role("treeitem").count() < count
    page.keyboard.press("ArrowRight")
    expect(row).to_have_attribute("aria-expanded", "true")
    expect(tree.get_by_role("treeitem")).to_have_count(count)


def test_a_node_gets_a_star_a_name_a_note_and_is_pruned_and_all_is_undone(page: Page) -> None:
    opened(page)
    node = current(page)
    marks = "(id) => desk.story.mark(id)"
    had = page.evaluate(marks, node)
    page.keyboard.press("b")
    assert page.evaluate(marks, node).get("star") is (None if had.get("star") else True)
    page.keyboard.press("F2")
    page.keyboard.type("The end")
    page.keyboard.press("Enter")
    expect(page.locator(f"#outline-{node} b")).to_have_text("The end")
    page.keyboard.press("n")
    page.get_by_role("textbox", name="Note on this branch").fill("too short?")
    page.keyboard.press("Control+Enter")
    page.keyboard.press("Delete")
    expect(page.locator(f"#outline-{node}")).to_have_class("row on-path pruned")
    named = page.evaluate(marks, node)
    assert (named["name"], named["note"], named["pruned"]) == ("The end", "too short?", True)
    for _ in range(4):
        page.evaluate("desk.undo()")
    assert page.evaluate(marks, node) == had


def test_a_search_lists_what_has_the_words(page: Page) -> None:
    tree = opened(page)
    page.get_by_label("Search").fill("FERRY")
    page.wait_for_function("() => document.querySelectorAll('srb-outline .row').length < desk.story.nodes.size")
    labels = tree.get_by_role("treeitem").all()
    assert labels
    texts = page.evaluate("[...desk.story.nodes.values()].filter(({id, text}) => `${text} ${desk.story.mark(id).name ?? ''} "
                          "${desk.story.mark(id).note ?? ''}`.toLowerCase().includes('ferry')).length")  # fmt: skip
    assert len(labels) == texts
    assert current(page) == str(labels[0].get_attribute("id")).removeprefix("outline-"), (
        "keys act on a row that is shown"
    )
    page.get_by_label("Search").fill("no such words")
    expect(page.get_by_text("Nothing has these words.")).to_be_visible()
    expect(page.get_by_role("group", name="The chosen branch")).to_have_count(0)


@pytest.mark.parametrize("key", ["ArrowDown", "Enter"])
def test_from_the_search_field_a_key_goes_into_what_was_found(page: Page, key: str) -> None:
    tree = opened(page)
    field = page.get_by_label("Search")
    field.fill("no such words")
    field.press(key)
    expect(field).to_be_focused()
    field.fill("FERRY")
    rows = tree.get_by_role("treeitem")
    expect(rows.first).to_contain_text(re.compile("ferry", re.IGNORECASE))
    field.press(key)
    expect(tree).to_be_focused()
    expect(rows.first).to_have_attribute("aria-selected", "true")


def test_in_a_search_acts_and_arrows_are_those_of_a_row_that_is_shown(page: Page) -> None:
    page.evaluate("openLarge(3)")
    tree = opened(page)
    page.get_by_label("Search").fill("round 1 card")
    expect(tree.get_by_role("treeitem")).to_have_count(8)
    first = str(tree.get_by_role("treeitem").first.get_attribute("id")).removeprefix("outline-")
    page.get_by_role("group", name="The chosen branch").get_by_role("button", name="Star").click()
    assert page.evaluate("(id) => desk.story.mark(id).star", first) is True
    assert page.evaluate("desk.story.mark(desk.head.node).star") is None
    tree.focus()
    page.keyboard.press("ArrowDown")
    assert current(page) == str(tree.get_by_role("treeitem").nth(1).get_attribute("id")).removeprefix("outline-")


def test_a_fork_says_how_many_ways_there_are_beside_the_one_that_was_taken(page: Page) -> None:
    page.evaluate("openLarge(2)")
    first = opened(page).get_by_role("treeitem").first
    expect(first.locator(".ways")).to_have_text("7 other ways")


def test_the_outline_that_is_opened_has_the_focus_and_a_double_click_selects_no_text(page: Page) -> None:
    page.get_by_role("button", name="Outline").click()
    expect(page.get_by_role("tree")).to_be_focused()
    page.get_by_role("treeitem").first.dblclick()
    assert page.evaluate("getSelection().toString()") == ""


def test_the_chosen_row_has_the_ring_while_keys_act_on_it_and_none_is_cut(page: Page) -> None:
    ring = "(each) => [getComputedStyle(each).outlineStyle, getComputedStyle(each).outlineOffset]"
    page.get_by_role("button", name="Outline").focus()
    page.keyboard.press("Enter")
    tree = page.get_by_role("tree")
    expect(tree).to_be_focused()
    chosen = tree.get_by_role("treeitem", selected=True)
    assert chosen.evaluate(ring) == ["solid", "-2px"]  # within the row
    assert tree.evaluate(ring)[0] == "none"  # it would be cut above and below
    page.get_by_label("Search").focus()
    assert chosen.evaluate(ring)[0] == "none"


def test_what_is_pruned_is_hidden_in_the_tree_and_in_a_search(page: Page) -> None:
    page.evaluate("openLarge(2)")
    tree = opened(page)
    pruned = tree.get_by_role("treeitem").filter(has_text="round 1 card 5")
    pruned.click()
    page.get_by_role("group", name="The chosen branch").get_by_role("button", name="Set aside").click()
    box = page.get_by_role("checkbox", name="hide what is set aside")
    box.check()
    expect(pruned).to_have_count(0)
    expect(tree.get_by_role("treeitem")).to_have_count(16)
    page.get_by_label("Search").fill("round 1")
    expect(tree.get_by_role("treeitem")).to_have_count(7)
    expect(pruned).to_have_count(0)
    box.uncheck()
    expect(tree.get_by_role("treeitem")).to_have_count(8)
    expect(pruned).to_have_count(1)


def test_a_branch_that_nobody_looked_at_has_a_dot_until_it_is_opened(page: Page) -> None:
    page.evaluate("openLarge(2)")
    tree = opened(page)
    row = tree.get_by_role("treeitem").filter(has_text="round 1 card 5")
    dot = row.locator(".unread")
    expect(page.locator(".counts")).to_contain_text("14 unread")  # 16 branches, two of which are the text
    expect(dot).to_have_text("●")
    expect(row).to_have_accessible_name(re.compile("unread"))
    row.click()
    expect(dot).to_have_text("●")  # chosen is not opened
    row.get_by_role("button", name="Open").click()
    expect(dot).to_have_text("")
    page.get_by_role("button", name="Back to where I was").click()
    expect(page.locator(".counts")).to_contain_text("13 unread")
    expect(dot).to_have_text("")
    expect(row).not_to_have_accessible_name(re.compile("unread"))


def test_of_a_story_of_thousands_of_nodes_only_the_rows_in_view_are_in_the_document(page: Page) -> None:
    page.evaluate("openLarge(625)")
    tree = opened(page)
    assert page.evaluate("document.querySelector('srb-outline').rows.length") > 600
    assert tree.get_by_role("treeitem").count() < 60
    page.keyboard.press("Home")
    expect(tree.get_by_role("treeitem").first).to_contain_text("Once upon a time,")
    page.keyboard.press("End")
    page.wait_for_function("() => document.querySelector('srb-outline').current === desk.head.node")
    assert page.evaluate("document.querySelectorAll('*').length") < 1500


def test_branches_that_write_show_their_words_and_no_row_is_read_again(page: Page) -> None:
    page.evaluate("openLarge(100)")
    tree = opened(page)
    page.evaluate("""() => {
      const outline = document.querySelector("srb-outline");
      const { gather } = outline;
      window.gathered = 0;
      outline.gather = () => { gathered += 1; gather.call(outline); };
      const { node, at } = desk.head;
      window.grow = (isGrowth) => desk.tell("nodes", { ids: null, isGrowth });
      window.branch = desk.story.addModelNode({ parent: node, keep: at, text: " a new", run: "new", slot: 0 });
      grow(true);
    }""")
    row = tree.get_by_role("treeitem").last
    expect(row).to_contain_text("a new")
    gathered = page.evaluate("gathered")
    assert gathered > 0
    page.evaluate("desk.story.grow(branch, ' a new word'); grow(true)")
    expect(row).to_contain_text("a new word")
    assert page.evaluate("gathered") == gathered
    page.evaluate("desk.story.end(branch, { reason: 'limit' }); grow(false)")
    page.wait_for_function("(before) => gathered > before", arg=gathered)


MAP = "document.querySelector('srb-map')"


def opened_map(page: Page) -> Locator:
    page.evaluate("desk.openDialog('map')")
    canvas = page.get_by_role("application", name="Map of the story")
    expect(canvas).to_be_focused()
    page.wait_for_function(f"() => {MAP}.painter.drawn > 0")
    return canvas


def place_of(page: Page, node: str) -> tuple[float, float]:
    """Return where the middle of a node of the map is on the screen."""
    x, y = page.evaluate(
        """(id) => {
          const { layout, view, canvas } = document.querySelector("srb-map");
          const { column, y } = layout.spots.get(id);
          const box = canvas.getBoundingClientRect();
          return [box.x + (column * 296 + 124) * view.scale + view.x, box.y + y * view.scale + view.y];
        }""",
        node,
    )
    return x, y


def chosen(page: Page) -> str:
    return str(page.evaluate(f"{MAP}.current"))


def test_the_map_is_walked_by_arrows_and_opens_a_branch(page: Page) -> None:
    before = head(page)
    canvas = opened_map(page)
    expect(page.get_by_text(f"{page.evaluate('desk.story.nodes.size')} passages")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    parent = page.evaluate("(id) => desk.story.nodes.get(id).parent", before)
    page.wait_for_function(f"(id) => {MAP}.current === id", arg=parent)
    words = page.evaluate(f"{MAP}.words()")
    expect(page.get_by_role("region", name="Map").get_by_role("status")).to_have_text(words)
    expect(canvas).to_have_accessible_description(words)
    assert page.evaluate("desk.ghost.place.node") == parent
    page.wait_for_function("""() => {
      const canvas = document.querySelector("srb-map canvas");
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return data.some((byte, place) => byte !== data[place % 4]);
    }""")
    page.keyboard.press("Enter")
    page.wait_for_function("(id) => desk.head.node === id", arg=parent)
    expect(canvas).to_be_focused()
    page.get_by_role("button", name="Close the map").click()
    expect(canvas).to_be_hidden()


def test_a_click_on_the_map_chooses_a_node_and_a_drag_of_the_ground_moves_it(page: Page) -> None:
    canvas = opened_map(page)
    page.keyboard.press("0")
    other = page.evaluate(f"[...{MAP}.layout.spots.keys()].find((id) => id !== {MAP}.current)")
    page.mouse.click(*place_of(page, other))
    page.wait_for_function(f"(id) => {MAP}.current === id", arg=other)
    box = canvas.bounding_box()
    assert box is not None
    before = page.evaluate(f"{MAP}.view.x")
    y = box["y"] + box["height"] - 8  # below all nodes
    page.mouse.move(box["x"] + 20, y)
    page.mouse.down()
    page.mouse.move(box["x"] + 80, y - 4)
    page.mouse.up()
    assert page.evaluate(f"{MAP}.view.x") == pytest.approx(before + 60)
    page.mouse.wheel(0, -200)
    page.wait_for_function(f"{MAP}.view.scale > {page.evaluate(f'{MAP}.view.scale') / 1.2}")


def test_all_of_a_long_story_fits_and_only_what_can_be_seen_is_drawn(page: Page) -> None:
    page.evaluate("openLarge(1250)")
    opened_map(page)
    assert page.evaluate(f"{MAP}.layout.spots.size") > 10_000
    assert page.evaluate(f"{MAP}.painter.drawn") < 60
    words = page.evaluate(f"{MAP}.painter.wrapped.size")
    assert 0 < words < 60
    page.keyboard.press("0")
    inside = f"""() => {{
      const {{ layout, view, canvas }} = {MAP};
      const right = view.x + layout.columns.length * 296 * view.scale;
      return view.x >= 0 && right <= canvas.clientWidth && view.y + layout.top * view.scale >= 0
        && view.y + layout.bottom * view.scale <= canvas.clientHeight;
    }}"""
    page.wait_for_function(inside)
    page.wait_for_function(f"() => {MAP}.painter.drawn > 60")
    assert page.evaluate(f"{MAP}.painter.drawn") < page.evaluate(f"{MAP}.canvas.clientWidth") * 4
    page.keyboard.press("Home")
    page.wait_for_function(f"() => {MAP}.view.scale === 1")
    assert chosen(page) == head(page)


def test_what_goes_on_from_a_node_is_closed_up_or_shown_alone(page: Page) -> None:
    page.evaluate("openLarge(3)")
    opened_map(page)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    node = chosen(page)
    count = page.evaluate(f"{MAP}.layout.spots.size")
    page.keyboard.press("c")
    page.wait_for_function(f"(count) => {MAP}.layout.spots.size === count - 16", arg=count)
    expect(page.get_by_role("region", name="Map").get_by_role("status")).to_contain_text("closed up: 16 behind it")
    assert page.evaluate("(id) => desk.story.mark(id).folded", node) is True
    page.keyboard.press("c")
    page.wait_for_function(f"(count) => {MAP}.layout.spots.size === count", arg=count)
    page.keyboard.press("h")
    page.wait_for_function(f"{MAP}.layout.spots.size === 17")
    page.get_by_role("button", name="Whole story").click()
    page.wait_for_function(f"(count) => {MAP}.layout.spots.size === count", arg=count)


def test_a_node_is_dragged_onto_another_and_its_words_go_on_there_until_that_is_undone(page: Page) -> None:
    page.evaluate("openLarge(2)")
    opened_map(page)
    page.keyboard.press("0")
    end, (carried, onto) = (
        head(page),
        page.evaluate("""() => {
      const last = desk.story.nodes.get(desk.head.node).parent;
      return desk.story.children(last).filter((id) => id !== desk.head.node).slice(0, 2);
    }"""),
    )
    nodes = page.evaluate("desk.story.nodes.size")
    page.mouse.move(*place_of(page, carried))
    page.mouse.down()
    page.mouse.move(*place_of(page, onto), steps=4)
    assert page.evaluate(f"{MAP}.target") == onto
    page.mouse.up()
    page.wait_for_function("(count) => desk.story.nodes.size === count + 1", arg=nodes)
    branch = chosen(page)
    joined = page.evaluate(
        "([onto, carried]) => desk.story.text(onto) + desk.story.nodes.get(carried).text", [onto, carried]
    )
    assert page.evaluate("(id) => desk.story.text(id)", branch) == joined
    assert head(page) == end
    page.evaluate("desk.undo()")
    page.wait_for_function(f"(id) => !{MAP}.layout.spots.has(id)", arg=branch)
    page.evaluate("desk.redo()")
    page.wait_for_function(f"(id) => {MAP}.layout.spots.has(id)", arg=branch)
    page.evaluate(f"{MAP}.walk('{end}')")
    page.keyboard.press("g")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.wait_for_function("(count) => desk.story.nodes.size === count + 2", arg=nodes)


def test_branches_that_grow_come_into_the_map(page: Page) -> None:
    page.evaluate("openLarge(2)")
    opened_map(page)
    count = page.evaluate(f"{MAP}.layout.spots.size")
    page.evaluate("""() => {
      const { node, at } = desk.head;
      window.branch = desk.story.addModelNode({ parent: node, keep: at, text: " a new", run: "new", slot: 0 });
      desk.tell("nodes", { ids: null, isGrowth: true });
    }""")
    page.wait_for_function(f"(count) => {MAP}.layout.spots.size === count + 1", arg=count)
    high = page.evaluate(f"{MAP}.layout.spots.get(branch).height")
    page.evaluate("desk.story.grow(branch, ' a new word'); desk.tell('nodes', { ids: null, isGrowth: true })")
    page.wait_for_function(f"() => {MAP}.painter.wrapped.get(branch)?.lines.join() === 'a new word'")
    assert page.evaluate(f"{MAP}.layout.spots.get(branch).height") == high


def test_stars_and_chapters_are_columns_of_the_map(page: Page) -> None:
    page.evaluate("openLarge(3)")
    page.evaluate("""() => {
      const words = "\\n\\n## The storm\\n\\nIt rained.\\n\\n## Home\\n\\nNobody came.";
      desk.head = desk.story.edit(desk.head, desk.text.length, desk.text.length, words);
      desk.story.head = desk.head;
      desk.closeTyped();
    }""")
    opened_map(page)
    column = page.evaluate(f"{MAP}.layout.spots.get(desk.head.node).column")
    assert page.evaluate(f"{MAP}.bands") == [{"name": "The storm · Home", "column": column}]
    page.keyboard.press("ArrowLeft")
    starred = chosen(page)
    page.keyboard.press("b")
    page.wait_for_function(f"(column) => {MAP}.stars.includes(column)", arg=column - 1)
    page.keyboard.press("Home")
    x, _ = place_of(page, starred)
    box = page.locator("srb-map canvas").bounding_box()
    assert box is not None
    page.mouse.click(x, box["y"] + 24)
    page.wait_for_function(f"(id) => {MAP}.current === id", arg=starred)


@pytest.mark.parametrize("scheme", ["light", *long("dark")])
@pytest.mark.parametrize("state", ["outline", "map"])
def test_axe_finds_nothing_wrong(make_page: MakePage, scheme: str, state: str) -> None:
    page = make_page(color_scheme=scheme, bypass_csp=True)
    open_harness(page, "tree")
    if state == "outline":
        opened(page)
    else:
        opened_map(page)
    assert violations(page) == []
