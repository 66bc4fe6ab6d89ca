"""The constraints of vLLM's and SGLang's clients: each is a grammar or a schema of ours."""

from __future__ import annotations

from typing import Any

import pytest

from srb.config.settings import Settings
from srb.errors import InvalidRequest
from srb.web.dialects.llamacpp.body import LlamaCompletionBody
from srb.web.dialects.openai.chat_body import ChatBody
from srb.web.dialects.openai.completion_body import TextCompletionBody
from srb.web.dialects.srb.controls import AddBody
from tests.engine_helpers import Driver

PROMPT = "the old king"

SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}}
SCHEMA_TEXT = '{"type":"object","properties":{"a":{"type":"boolean"}}}'
GRAMMAR = 'root ::= "a" | "b"'
SAME: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"guided_json": SCHEMA}, {"json_schema": SCHEMA_TEXT, "grammar": ""}),
    ({"guided_json": SCHEMA_TEXT}, {"json_schema": SCHEMA_TEXT, "grammar": ""}),
    ({"guided_choice": ["yes", 'a "no"\n']}, {"grammar": 'root ::= "yes" | "a \\"no\\"\\n"', "json_schema": ""}),
    ({"guided_grammar": GRAMMAR}, {"grammar": GRAMMAR, "json_schema": ""}),
    ({"ebnf": GRAMMAR}, {"grammar": GRAMMAR, "json_schema": ""}),
    ({"guided_regex": "[ab]{3}"}, {"grammar": "/[ab]{3}/", "json_schema": ""}),
    ({"regex": "[ab]{3}"}, {"grammar": "/[ab]{3}/", "json_schema": ""}),
    ({"regex_pattern": "[ab]{3}"}, {"grammar": "/[ab]{3}/", "json_schema": ""}),
    ({"response_format": {"type": "regex", "value": "a+"}}, {"grammar": "/a+/", "json_schema": ""}),
    ({"structured_outputs": {"json": SCHEMA}}, {"json_schema": SCHEMA_TEXT, "grammar": ""}),
    ({"structured_outputs": {"json_object": True}}, {"json_schema": '{"type":"object"}', "grammar": ""}),
    ({"structured_outputs": {"choice": ["x"], "regex": None}}, {"grammar": 'root ::= "x"', "json_schema": ""}),
    ({"structured_outputs": {"regex": "a+"}}, {"grammar": "/a+/", "json_schema": ""}),
    ({"structured_outputs": {"grammar": GRAMMAR}}, {"grammar": GRAMMAR, "json_schema": ""}),
    ({"guided_json": None, "structured_outputs": {}}, {}),
    ({"guided_json_object": True}, {"json_schema": '{"type":"object"}', "grammar": ""}),
    ({"guided_json_object": False, "structured_outputs": {"json_object": False, "whitespace_pattern": None}}, {}),
    ({"guided_regex": "a+", "guided_decoding_backend": "xgrammar"}, {"grammar": "/a+/", "json_schema": ""}),
    ({"structured_outputs": {"regex": "a+", "disable_fallback": True}}, {"grammar": "/a+/", "json_schema": ""}),
]


@pytest.mark.parametrize(("given", "right"), SAME, ids=[str(given) for given, _ in SAME])
def test_a_constraint_of_others_is_one_of_ours(given: dict[str, Any], right: dict[str, str]) -> None:
    text = TextCompletionBody.parse({"prompt": "x", **given})
    chat = ChatBody.parse({"messages": [{"role": "user", "content": "x"}], **given})
    llama = LlamaCompletionBody.parse({"prompt": "x", **given})
    for body in (text, chat, llama):
        changes = body.sampling_changes()
        assert {name: value for name, value in changes.items() if name in ("grammar", "json_schema")} == right


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}, "response_format.json_schema.schema"),
        ({"type": "json_object", "schema": SCHEMA}, "response_format.schema"),
        ({"type": "json", "value": SCHEMA}, "response_format.value"),
    ],
)
def test_a_text_follows_the_schema_of_its_response_format(given: dict[str, Any], place: str) -> None:
    body = TextCompletionBody.parse({"prompt": "x", "response_format": given})
    command = body.commands(Settings(), 2, 1)[0]
    assert [(each.sampling.json_schema, each.sampling.schema_place) for each in command.branches] == [
        (SCHEMA_TEXT, place)
    ] * 2
    for other in ({"grammar": GRAMMAR}, {"json_schema": {}}):
        with pytest.raises(InvalidRequest, match="response_format"):
            TextCompletionBody.parse({"prompt": "x", "response_format": given, **other}).commands(Settings(), 1, 1)
    plain = TextCompletionBody.parse({"prompt": "x", "response_format": {"type": "text"}, "grammar": GRAMMAR})
    assert plain.commands(Settings(), 1, 1)[0].branches[0].sampling.grammar == GRAMMAR


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"guided_json": "{"}, "guided_json"),
        ({"guided_json": [1]}, "guided_json"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_choice": ["a", 5]}, "guided_choice"),
        ({"guided_choice": ["a"] * 1025}, "guided_choice"),
        ({"guided_regex": 5}, "guided_regex"),
        ({"response_format": {"type": "regex"}}, "response_format.value"),
        ({"response_format": {"type": "regex", "value": "a"}, "regex": "b"}, "response_format.value"),
        ({"response_format": {"type": "regex", "value": "a"}, "grammar": GRAMMAR}, "grammar"),
        ({"ebnf": ["root"]}, "ebnf"),
        ({"structured_outputs": "json"}, "structured_outputs"),
        ({"structured_outputs": {"regex": {}}}, "structured_outputs.regex"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs.choice"),
        ({"guided_regex": "a", "guided_choice": ["b"]}, "guided_choice"),
        ({"regex": "a", "grammar": GRAMMAR}, "grammar"),
        ({"structured_outputs": {"structural_tag": "{}"}}, "structured_outputs.structural_tag"),
        ({"structured_outputs": {"json": SCHEMA, "whitespace_pattern": " "}}, "structured_outputs.whitespace_pattern"),
        (
            {"structured_outputs": {"json": SCHEMA, "disable_any_whitespace": True}},
            "structured_outputs.disable_any_whitespace",
        ),
        ({"guided_json": SCHEMA, "guided_whitespace_pattern": " "}, "guided_whitespace_pattern"),
        ({"guided_not_known_yet": "x"}, "guided_not_known_yet"),
        ({"structural_tag": "{}"}, "structural_tag"),
        ({"guided_json_object": "yes"}, "guided_json_object"),
    ],
)
def test_a_constraint_that_is_none_or_one_of_two_is_refused_and_named(given: dict[str, Any], named: str) -> None:
    for body in (TextCompletionBody, LlamaCompletionBody):
        with pytest.raises(InvalidRequest, match=named) as caught:
            body.parse({"prompt": "x", **given})
        assert caught.value.extra["param"] == named


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("/a{3}/", "aaa"), (r"/^a\/b$/", "a/b"), ("/(a|a)b/", "ab"), ("/a\nb/", "a\nb"), (r"/\$x\$/", "$x$")],
)
def test_a_regular_expression_between_slashes_is_matched_by_the_whole_text(pattern: str, text: str) -> None:
    driver = Driver()
    outcome = driver.result(driver.submit(PROMPT, n=3, max_tokens=20, grammar=pattern))
    driver.run()
    assert set(outcome.texts.values()) == {text}
    assert {end.reason for end in outcome.ends.values()} == {"eos"}


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [("/(?!a)b/", "look"), ("/(/", "not supported"), ("/a", "ends with one"), ("//", "ends with")],
)
def test_a_regular_expression_that_cannot_hold_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason) as caught:
        Driver().submit(PROMPT, grammar=pattern)
    assert caught.value.extra["param"] == "grammar"


def test_an_entry_of_branches_knows_its_place_in_requests_and_in_controls() -> None:
    entries = [{}, {"grammar": GRAMMAR}, {"json_schema": SCHEMA}]
    command = TextCompletionBody.parse({"prompt": "x", "branches": entries}).commands(Settings(), 1, 1)[0]
    added = [dict(changes) for _, _, _, changes in AddBody.parse({"branches": entries}).entries(8)]
    assert [each.sampling.grammar_place for each in command.branches] == ["grammar", "branches[1].grammar", "grammar"]
    assert command.branches[2].sampling.schema_place == "branches[2].json_schema"
    assert (added[1]["grammar_place"], added[2]["schema_place"]) == ("branches[1].grammar", "branches[2].json_schema")
    [(_, _, _, alone)] = AddBody.parse({"grammar": GRAMMAR}).entries(8)
    assert dict(alone)["grammar_place"] == "grammar"


@pytest.mark.parametrize("kind", ["json_object", "json"])
def test_a_schema_in_value_is_the_schema_of_the_reply(kind: str) -> None:
    body = {"messages": [{"role": "user", "content": "x"}], "response_format": {"type": kind, "value": SCHEMA}}
    chat = ChatBody.parse(body)
    assert chat.response_format.schema == SCHEMA_TEXT
    assert chat.schema_place == "response_format.value"
    chat = ChatBody.parse({**body, "response_format": {"type": "regex", "value": "a+"}})
    assert chat.grammar_place == "response_format.value"
