"""Posts and files of stories as they arrive: every malformed one is refused as a whole, with the field's name."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from srb.errors import InvalidRequest
from srb.stories import pieces
from srb.stories.files import read_file
from srb.stories.limits import MAX_DEPTH, MAX_NODES, MAX_TEXT, MAX_VALUE
from srb.stories.parts import read_post
from tests.stories import at, model, person

SMALL = {"format": "srb-story", "version": 1, "id": "s", "nodes": {"a": person("x")}}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def refusal(data: bytes | dict[str, Any], read: Any = read_post) -> tuple[str | None, str]:
    """Return the field and the message of a refusal."""
    with pytest.raises(InvalidRequest) as refused:
        read(data if isinstance(data, bytes) else orjson.dumps(data))
    assert "\n" not in refused.value.message
    refused.value.message.encode()  # it can be sent
    return refused.value.extra.get("param"), refused.value.message


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b'{"nodes": {"a": {"text": "\\ud800", "by": "person"}}}', "nodes.a.text"),
        (b'{"nodes": {"a": {"text": "x\\udc00y", "by": "person"}}}', "nodes.a.text"),
        (b'{"nodes": {"\\ud800": {"text": "x", "by": "person"}}}', "nodes.?"),
        (b'{"nodes": {"a": {"text": "x", "by": "person", "mood": ["", "\\udfff"]}}}', "nodes.a.mood.1"),
        (b'{"nodes": {"a": {"text": "x", "by": "person", "logprob": NaN}}}', "nodes.a.logprob"),
        (b'{"meta": {"settings": {"value": {"top_p": -Infinity}, "changed": 1}}}', "meta.settings.value.top_p"),
        (b'{"meta": {"settings": {"value": {"top_p": 1e999}, "changed": 1}}}', "meta.settings.value.top_p"),
        (b'{"nodes": {"__proto__": {"text": "x", "by": "person"}}}', "nodes.__proto__"),
        (b'{"marks": {"a": {"__proto__": {"value": 1, "changed": 1}}}}', "marks.a.__proto__"),
        (b'{"meta": {"x": {"value": [{"__proto__": {}}], "changed": 1}}}', "meta.x.value.0.__proto__"),
    ],
)
def test_a_value_that_another_program_could_not_read_is_named(data: bytes, field: str) -> None:
    assert refusal(data)[0] == field


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'"x"', b"null", b"\xef\xbb\xbf{}", b'{"nodes": {"a": "\xff"}}', b"[" * 5000 + b"]" * 5000, b"{} {}",
     b'{"a": "\x01"}'],
)  # fmt: skip
def test_a_body_that_is_no_json_object_is_refused(data: bytes) -> None:
    assert "JSON" in refusal(data)[1]


@pytest.mark.parametrize(
    ("node", "field"),
    [
        ({"by": "person"}, "nodes.a.text"),
        ({"text": 3, "by": "person"}, "nodes.a.text"),
        ({"text": None, "by": "person"}, "nodes.a.text"),
        ({"text": "x"}, "nodes.a.by"),
        ({"text": "x", "by": "dog"}, "nodes.a.by"),
        ({"text": "x", "by": "person", "keep": 0}, "nodes.a"),
        ({"text": "x", "by": "person", "tail": 0}, "nodes.a"),
        ({"text": "x", "by": "person", "parent": "b"}, "nodes.a"),
        ({"text": "x", "by": "person", "parent": "b", "keep": 3, "tail": 2}, "nodes.a"),
        ({"text": "x", "by": "person", "parent": "b", "keep": -1}, "nodes.a.keep"),
        ({"text": "x", "by": "person", "parent": "b", "keep": 1.5}, "nodes.a.keep"),
        ({"text": "x", "by": "person", "parent": "b", "keep": True}, "nodes.a.keep"),
        ({"text": "x", "by": "person", "parent": "b", "keep": "1"}, "nodes.a.keep"),
        ({"text": "x", "by": "person", "parent": "b", "keep": 2**53}, "nodes.a.keep"),
        ({"text": "x", "by": "person", "parent": "b c", "keep": 0}, "nodes.a.parent"),
        ({"text": "x", "by": "person", "parent": 7, "keep": 0}, "nodes.a.parent"),
        ({"text": "x", "by": "person", "parent": "a", "keep": 0}, "nodes.a.parent"),
        ({"text": "x", "by": "person", "open": 1}, "nodes.a.open"),
        ({"text": "x", "by": "person", "run": ""}, "nodes.a.run"),
        ({"text": "x", "by": "person", "index": -1}, "nodes.a.index"),
        ({"text": "x", "by": "person", "end": "eos"}, "nodes.a.end"),
        ({"text": "x", "by": "person", "end": {}}, "nodes.a.end.reason"),
        ({"text": "x", "by": "person", "slot": "1"}, "nodes.a.slot"),
        ({"text": "x", "by": "person", "made": "today"}, "nodes.a.made"),
        ({"text": "x", "by": "person", "mood": nested(MAX_DEPTH + 1)}, "nodes.a.mood" + ".0" * (MAX_DEPTH - 2)),
        ({"text": "x", "by": "person", "mood": "x" * (MAX_VALUE + 1)}, "nodes.a"),
        ({"text": "x" * (MAX_TEXT + 1), "by": "person"}, "nodes.a.text"),
        ("x", "nodes.a"),
        ([], "nodes.a"),
        (None, "nodes.a"),
    ],
)
def test_a_malformed_node_is_named(node: Any, field: str) -> None:
    assert refusal({"nodes": {"a": node}})[0] == field
    assert refusal({**SMALL, "nodes": {"a": node}}, read_file)[0] == field


@pytest.mark.parametrize(
    ("post", "field"),
    [
        ({"nodes": []}, "nodes"),
        ({"nodes": {"a b": person("x")}}, "nodes.a b"),
        ({"nodes": {"": person("x")}}, "nodes."),
        ({"nodes": {"x" * 65: person("x")}}, "nodes." + "x" * 65),
        ({"meta": {"title": "x"}}, "meta.title"),
        ({"meta": {"title": {"value": "x"}}}, "meta.title.changed"),
        ({"meta": {"title": at(3, 1)}}, "meta.title"),
        ({"meta": {"title": at("😀" * 501, 1)}}, "meta.title"),
        ({"meta": {"title": at("x", -1)}}, "meta.title.changed"),
        ({"meta": {"title": at("x", 1.5)}}, "meta.title.changed"),
        ({"meta": {"title": {**at("x", 1), "by": "me"}}}, "meta.title.by"),
        ({"meta": {"head": at("a", 1)}}, "meta.head"),
        ({"meta": {"head": at({"node": "a"}, 1)}}, "meta.head.at"),
        ({"meta": {"memory": at(["x"], 1)}}, "meta.memory"),
        ({"meta": {"nodes": at(1, 1)}}, "meta.nodes"),
        ({"meta": {"": at(1, 1)}}, "meta."),
        ({"meta": {"plan": at("x" * (MAX_VALUE + 1), 1)}}, "meta.plan"),
        ({"marks": {"a": {"star": True}}}, "marks.a.star"),
        ({"marks": {"a": {"changed": at(1, 1)}}}, "marks.a.changed"),
        ({"marks": {"a b": {}}}, "marks.a b"),
        ({"runs": {"r": 3}}, "runs.r"),
        ({"runs": {"r": {"node": 3}}}, "runs.r.node"),
        ({"runs": {"r": {"seeds": 3}}}, "runs.r.seeds"),
        ({"meta": {"note": at({"depth": 3}, 1)}}, "meta.note.text"),
        ({"runs": {"r": {"request": "x" * (MAX_VALUE + 1)}}}, "runs.r"),
        ({"since": -1}, "since"),
        ({"since": "3"}, "since"),
        ({"title": "x"}, "title"),
    ],
)
def test_a_malformed_part_of_a_post_is_named(post: dict[str, Any], field: str) -> None:
    assert refusal(post)[0] == field


def test_a_circle_of_parents_is_refused_as_a_whole() -> None:
    circle = {"a": person("x", "c", 0), "b": person("x", "a", 0), "c": person("x", "b", 0), "d": person("d")}
    for read, body in ((read_post, {"nodes": circle}), (read_file, {**SMALL, "nodes": circle})):
        field, message = refusal(body, read)
        assert field in {"nodes.a.parent", "nodes.b.parent", "nodes.c.parent"}
        assert "circle" in message


def test_a_file_with_more_nodes_than_a_story_may_have_is_refused_unless_it_is_not_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert MAX_NODES >= 100_000
    monkeypatch.setattr(pieces, "MAX_NODES", 3)
    large = {**SMALL, "nodes": {f"n{number}": person("") for number in range(4)}}
    field, message = refusal(large, read_file)
    assert field == "nodes"
    assert "more than the 3 nodes" in message
    assert len(read_file(orjson.dumps(large), is_limited=False).part.nodes) == 4


def test_a_long_name_of_a_field_is_cut() -> None:
    field, message = refusal({"meta": {"x" * 5000: at(1, 1)}})
    assert field is not None
    assert len(field) < 200
    assert len(message) < 500


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"format": "other"}, "format"),
        ({"format": None}, "format"),
        ({"version": 2}, "version"),
        ({"version": "1"}, "version"),
        ({"id": "a/b"}, "id"),
        ({"id": None}, "id"),
        ({"nodes": None}, "nodes"),
        ({"title": 3}, "title"),
        ({"head": {"node": "a"}}, "head.at"),
        ({"marks": {"a": {"changed": "x"}}}, "marks.a.changed"),
        ({"marks": {"a": {"changed": -1}}}, "marks.a.changed"),
        ({"changes": {"meta": {"title": "x"}}}, "changes.meta.title"),
        ({"changes": {"nodes": {}}}, "changes.nodes"),
        ({"changes": {"meta": {"nodes": 5}}}, "meta.nodes"),
        ({"changes": {"marks": {"a": {"changed": 5}}}}, "marks.a.changed"),
        ({"settings": [1]}, "settings"),
        ({"settings": {"x" * 200: 1}}, "settings." + "x" * 111 + "…"),
        ({"changed": "now"}, "changed"),
        ({"x" * 201: 1}, "x" * 120 + "…"),
    ],
)
def test_a_malformed_file_is_named(change: dict[str, Any], field: str) -> None:
    read_file(orjson.dumps(SMALL))
    assert refusal({**SMALL, **change}, read_file)[0] == field


def test_a_file_in_its_flat_form_gets_its_own_times_or_one_for_all() -> None:
    plain = {**SMALL, "title": "T", "changed": 9, "marks": {"a": {"star": True, "changed": 4}}, "mine": [1]}
    part = read_file(orjson.dumps(plain)).part
    assert {key: (entry.json, entry.changed) for key, entry in part.meta.items()} == {
        "title": ('"T"', 9),
        "mine": ("[1]", 9),
    }
    assert {key: entry.changed for key, entry in part.marks.items()} == {("a", "star"): 4}
    exact = {**plain, "changes": {"meta": {"title": 7}, "marks": {"a": {"star": 3}}}}
    part = read_file(orjson.dumps(exact)).part
    assert {key: entry.changed for key, entry in part.meta.items()} == {"title": 7, "mine": 9}
    assert {key: entry.changed for key, entry in part.marks.items()} == {("a", "star"): 3}


def test_parents_come_before_their_children_at_any_depth() -> None:
    nodes = {f"n{number}": model("x", f"n{number - 1}", number) for number in range(20_000, 0, -1)} | {"n0": model("x")}
    ordered = list(read_post(orjson.dumps({"nodes": nodes})).part.nodes)
    assert ordered == [f"n{number}" for number in range(20_001)]
