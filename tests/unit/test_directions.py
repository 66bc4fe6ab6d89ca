"""Directions: each branch reads the text with its own instruction in place, and the text before it is computed once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.engine.directions import parts_with
from srb.engine.fake import FakeModel
from srb.errors import InvalidRequest
from srb.web.app import create_app
from srb.web.bodies.directions import MOST, DirectionPlace, last_paragraph, place_in
from srb.wire.codec import decode, encode
from srb.wire.commands import BranchSpec, Generate, GetRequest, Place
from srb.wire.events import BranchAdded
from tests import scripted
from tests.engine_helpers import Driver, plain, solo

STORY = "the old king said nothing.\n\nThe river was dark.\n\nA fox came to the"
DIRECTIONS = ["a stranger arrives", "", "the king lies", "a stranger arrives"]


def asked(
    prompt: str = STORY, directions: list[str] = DIRECTIONS, max_tokens: int = 8, **options: Any
) -> tuple[Generate, list[str]]:
    """Return a request with directions, and the whole text that each branch reads."""
    of_branch = {name: options.pop(name) for name in ("append", "token_healing") if name in options}
    specs = tuple(
        BranchSpec(5 + i, max_tokens, direction=direction, **of_branch) for i, direction in enumerate(directions)
    )
    command = Generate("r", (prompt,), specs, place=place_in((prompt,)), **options)
    return command, ["".join(map(str, parts_with(command, each))) for each in directions]


def run(command: Generate, model: FakeModel | None = None, **options: Any) -> Driver:
    driver = Driver(model or FakeModel(n_ctx=4096), **options)
    driver.take(driver.engine.submit(driver.engine.prepare(command)))
    driver.run()
    return driver


# The engine -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("healing", [False, True])
@pytest.mark.parametrize("model", [{}, {"n_seq_max": 2}, {"supports_partial_reuse": False}])
@pytest.mark.parametrize("prompt", [STORY, STORY + " ", "One line", "Two lines\nare two", "Paragraphs.\n\n", ""])
def test_a_branch_writes_what_it_would_alone_behind_the_text_with_its_direction(
    prompt: str, model: dict[str, Any], healing: bool
) -> None:
    command, texts = asked(prompt, token_healing=healing)
    driver = run(command, FakeModel(n_ctx=4096, **model))
    heals = healing and driver.model.supports_partial_reuse
    for index, text in enumerate(texts):
        alone = solo(text, 5 + index, 8, token_healing=heals)
        assert driver.result("r").texts[index] == alone.texts[0], text
    driver.check_drained()


@pytest.mark.parametrize("end", ["A fox", "", "and it was “so”.\n\nA fox", "1, 2, 3"])
def test_a_long_text_is_read_once_and_its_tokens_are_those_of_each_whole_text(
    end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = "the old king said nothing to the quiet fox. " * 200
    directions = [f"a stranger number {number} arrives" for number in range(20)]
    command, texts = asked(f"{before}{end}", directions, max_tokens=1)
    driver, read = Driver(FakeModel(n_ctx=2**16)), list[int]()
    tokenize = driver.model.tokenize

    def counting(text: str, add_special: bool, parse_special: bool) -> list[int]:
        read.append(len(text))
        return tokenize(text, add_special, parse_special)

    monkeypatch.setattr(driver.model, "tokenize", counting)
    request = driver.engine.prepare(command)
    monkeypatch.undo()
    assert sum(read) < 3 * len(before) + 20 * 2000
    for branch, text in zip(request.branches, texts, strict=True):
        assert [*request.prefix.tokens, *branch.tokens] == FakeModel().tokenize(text, True, True)
    request.close()


def test_the_text_before_directions_is_computed_once_and_what_follows_once_for_each_branch() -> None:
    before = "the old king said nothing to the fox. " * 40 + "\n\n"
    last = "A river and a boat, and the"
    for directions in (["a stranger arrives", "the king lies", "a storm"], ["time passes"] * 3):
        command, texts = asked(before + last, directions, max_tokens=1)
        model = FakeModel(n_ctx=4096)
        driver = run(command, model)
        whole = [len(model.tokenize(text, True, True)) for text in texts]
        shared = len(model.tokenize(before, True, True))
        assert driver.model.n_tokens_decoded <= shared + sum(count - shared for count in whole)
        [done] = driver.result("r").terminal
        assert done.computed_tokens == driver.model.n_tokens_decoded
        assert done.prompt_tokens <= sum(whole) - 2 * shared + 2


@pytest.mark.parametrize("prompt", [STORY, "One line"])
def test_a_fork_keeps_its_branches_direction_and_an_added_branch_gets_the_next_or_its_own(prompt: str) -> None:
    directions = ["a stranger arrives", "the king lies"]
    command, texts = asked(prompt, directions, can_grow=True, linger=60.0)
    command = replace(command, directions=tuple(directions))
    driver = run(command)
    own = list(driver.result("r").tokens[1])
    [fork] = driver.add("r", plain(seed=77), origin=1, token=3)
    [again] = driver.add("r", plain(seed=78), origin=1, token=0)
    [dealt] = driver.add("r", plain(seed=79))
    [new] = driver.add("r", plain(seed=80, direction="a storm"))
    driver.run()
    model = driver.model
    begun = b"".join(map(model.piece, own[:3])).decode()
    cold = solo([*model.tokenize(texts[1], True, True), *own[:3]], 77, 8)
    assert driver.result("r").texts[fork] == begun + cold.texts[0]
    assert driver.result("r").texts[again] == solo(texts[1], 78, 8).texts[0]
    assert driver.result("r").texts[dealt] == solo(texts[dealt % 2], 79, 8).texts[0]
    [storm] = parts_with(command, "a storm")
    assert driver.result("r").texts[new] == solo(str(storm), 80, 8).texts[0]
    added = [event.direction for event in driver.result("r").events if isinstance(event, BranchAdded)]
    assert added == [directions[1], directions[1], directions[dealt % 2], "a storm"]
    described = driver.engine.serve_query(GetRequest("q", "r"))["branches"]
    assert [branch["direction"] for branch in described] == [*directions, *added]


def test_added_directions_are_refused_where_there_is_no_place_for_them() -> None:
    driver = Driver()
    request_id = driver.submit("the old king", max_tokens=4, can_grow=True, linger=60.0)
    driver.run()
    with pytest.raises(InvalidRequest, match="has no place"):
        driver.add(request_id, plain(direction="a storm"))
    command, _ = asked(can_grow=True, linger=60.0)
    driver.take(driver.engine.submit(driver.engine.prepare(command)))
    driver.run()
    with pytest.raises(InvalidRequest, match="leave it out"):
        driver.add("r", plain(direction="a storm"), origin=0, token=1)


@pytest.mark.parametrize("options", [{"distinct_first": True}, {"distinct_words": True}, {"sibling_penalty": 3.0}])
def test_branches_that_spread_compare_their_own_texts_whatever_length_their_directions_have(
    options: dict[str, Any],
) -> None:
    """With one direction for all, the texts are those of a request whose prompt has it."""
    command, [text, *_] = asked(directions=["a stranger arrives"] * 4, **options)
    same = replace(
        command, prompt=(text,), place=None, branches=tuple(replace(b, direction="") for b in command.branches)
    )
    assert run(command).result("r").texts == run(same).result("r").texts
    if "distinct_first" in options:
        for seed in range(40):
            command, _ = asked(directions=["a", "a stranger arrives", "a storm comes", ""], **options)
            command = replace(command, branches=tuple(replace(b, seed=seed + b.seed) for b in command.branches))
            drawn = run(command).result("r").tokens
            assert len({drawn[index][0] for index in range(4)}) == 4


def test_an_append_follows_what_stands_behind_the_direction() -> None:
    command, texts = asked(append=(" king said",))
    driver = run(command)
    for index, text in enumerate(texts):
        begun = [*driver.model.tokenize(text, True, True), *driver.model.tokenize(" king said", False, True)]
        assert driver.result("r").texts[index] == solo(begun, 5 + index, 8).texts[0]


def test_directions_without_a_place_or_with_one_outside_the_prompt_are_refused() -> None:
    spec = BranchSpec(1, 4, direction="a storm")
    for place in (None, Place(1, 0, "", ("",)), Place(0, 99, "", ("",)), Place(0, 0, "", ()), Place(0, 0, "", (5,))):
        with pytest.raises(InvalidRequest, match="direction"):
            Driver().engine.prepare(Generate("r", ("the old king",), (spec,), place=place))
    with pytest.raises(InvalidRequest, match="at most 1000"):
        Driver().engine.prepare(Generate("r", ("a",), (replace(spec, direction="a" * 1001),), place=place_in(("a",))))


def test_a_place_crosses_the_wire() -> None:
    command = replace(asked()[0], place=Place(2, 7, "[", ("]", 5, "x")), directions=("a", "b"))
    assert decode(encode([command])) == [command]


# The place in a text ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "with_direction"),
    [
        ("", "[What happens next: x]\n\n"),
        ("One.", "[What happens next: x]\n\nOne."),
        ("One.\n\nTwo", "One.\n\n[What happens next: x]\n\nTwo"),
        ("One.\nTwo", "One.\n[What happens next: x]\nTwo"),
        ("One.\n\nTwo.\n\n", "One.\n\n[What happens next: x]\n\nTwo.\n\n"),
    ],
)
def test_a_direction_stands_before_the_last_paragraph(text: str, with_direction: str) -> None:
    command = Generate("r", (text,), (BranchSpec(1),), place=place_in((text,)))
    assert parts_with(command, "x") == (with_direction,)
    assert parts_with(command, "") == (text,)


@pytest.mark.parametrize("unit", ["A sentence of some words. ", "words without any end ", "nospaces"])
def test_no_more_of_a_long_paragraph_is_computed_for_each_branch_than_the_limit(unit: str) -> None:
    text = "Title\n\n" + unit * 1000
    at = last_paragraph(text)
    assert len(text) - MOST <= at <= len(text) - MOST + len(unit)
    if " " in unit:
        assert text[at - 1] == " "


def test_a_place_that_is_asked_for_has_its_own_frame() -> None:
    place = place_in(("One. Two",), DirectionPlace(at=5, before="<u>", rest="</u>Two"))
    command = Generate("r", ("One. Two",), (BranchSpec(1),), place=place)
    assert parts_with(command, "x") == ("One. <u>x</u>Two",)


# The web ----------------------------------------------------------------------------------------------------------------


def serve(**settings: Any) -> tuple[FlaskClient, scripted.ScriptedClient]:
    loaded = Settings(**settings)
    engine = scripted.ScriptedClient(loaded)
    return create_app(loaded, engine).test_client(), engine


def post(http: FlaskClient, path: str = "/v1/srb/completions", **body: Any) -> Any:
    return http.post(path, data=orjson.dumps(body))


def events(text: str) -> list[dict[str, Any]]:
    return [orjson.loads(line.removeprefix("data: ")) for line in text.strip().split("\n\n")]


def test_directions_are_dealt_in_turn_and_told_with_each_branch() -> None:
    http, engine = serve()
    start, *_ = events(post(http, prompt=STORY, n=3, directions=["one", " two "]).text)
    assert start["directions"] == ["one", "two", "one"]
    [command] = engine.sent
    assert [spec.direction for spec in command.branches] == ["one", "two", "one"]
    assert command.place == place_in((STORY,))
    assert command.prompt == (STORY,)
    whole = post(http, prompt=STORY, directions=["one", "two"], stream=False).json
    assert [choice["direction"] for choice in whole["completions"]] == ["one", "two"]
    own = post(http, prompt=STORY, branches=[{"direction": "one"}, {}], stream=False).json
    assert [choice.get("direction") for choice in own["completions"]] == ["one", None]
    done = events(post(http, prompt=STORY, n=2, best_of=4, directions=["one", "two"]).text)[-1]
    assert len(done["directions"]) == 2
    plain_start, *_ = events(post(http, prompt=STORY, n=2).text)
    assert "directions" not in plain_start


def test_a_branch_does_not_write_the_note_in_which_its_direction_stands() -> None:
    http, engine = serve()
    post(http, prompt=STORY, directions=["one"], banned_strings=["x"])
    assert engine.sent[-1].branches[0].banned_strings == ("x", "[What happens next:")
    assert engine.sent[-1].base.banned_strings == ("x", "[What happens next:")
    for given in ({"grammar": 'root ::= "a"'}, {"direction_place": {"at": 0, "before": ""}}):
        post(http, prompt=STORY, directions=["one"], **given)
        assert engine.sent[-1].branches[0].banned_strings == ()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"directions": ["a", "b", "c", 4], "n": 4}, "directions[3]"),
        ({"directions": ["a", "b" * 1001]}, "directions[1]"),
        ({"directions": ["a"] * 9, "n": 8}, "directions"),
        ({"directions": ["a"] * 65}, "directions"),
        ({"directions": ["a"] * 5000}, "directions"),
        ({"directions": []}, "directions"),
        ({"directions": "a"}, "directions"),
        ({"directions": ["a"], "branches": [{"direction": "b"}]}, "directions"),
        ({"branches": [{}, {"direction": 4}]}, "branches[1].direction"),
        ({"directions": ["a"], "explore": {}}, "directions"),
        ({"directions": ["a"], "prompt": [1, 2]}, "directions"),
        ({"directions": ["a"], "echo": True, "logprobs": 1}, "echo"),
        ({"directions": ["a"], "direction_place": {"at": 999}}, "direction_place.at"),
        ({"directions": ["a"], "direction_place": {"at": 1, "frame": ""}}, "direction_place.frame"),
        ({"direction_place": {"at": 1}}, "direction_place"),
    ],
)
def test_errors_name_the_direction_at_fault(body: dict[str, Any], field: str) -> None:
    http, _ = serve()
    for path in ("/v1/srb/completions", "/v1/completions"):
        answer = post(http, path, **{"prompt": STORY, "model": "x", **body})
        assert answer.status_code == 400, answer.text
        assert answer.json["error"]["param"] == field, answer.text


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PLAIN = "<|im_start|>user\nWrite a story.<|im_end|>\n<|im_start|>assistant\n"
TRIMMING = CHATML.replace("{{ m.content }}", "{{ m.content | trim }}")


@pytest.mark.parametrize("template", [CHATML, TRIMMING])
def test_a_chats_direction_is_said_by_the_user_behind_the_text_that_all_share(template: str) -> None:
    http, engine = serve(chat_template=template)
    user = {"role": "user", "content": "Write a story."}
    answer = post(http, "/v1/chat/completions", messages=[user], n=2, directions=["one", "two"])
    assert answer.status_code == 200, answer.text
    [command] = engine.sent
    [text] = parts_with(command, "one")
    said = "Begin with this: one. Show who is there, what they do and what they say."
    asked = f"<|im_start|>user\nWrite a story.\n\n{said}<|im_end|>\n<|im_start|>assistant\n"
    assert text == asked
    assert command.prompt == (PLAIN,)
    begun = {"role": "assistant", "content": STORY}
    post(http, "/v1/chat/completions", messages=[user, begun], directions=["one"], continue_final_message=True)
    command = engine.sent[-1]
    [text] = parts_with(command, "one")
    assert str(text).endswith(f"user\n{said}<|im_end|>\n<|im_start|>assistant\nA fox came to the")
    assert command.prompt[0] == PLAIN + STORY
    assert command.place is not None
    assert command.place.character > str(command.prompt[0]).index("was dark.")
    short = {"role": "assistant", "content": "A fox"}
    post(http, "/v1/chat/completions", messages=[user, short], directions=["one"], continue_final_message=True)
    assert parts_with(engine.sent[-1], "one") == (f"{asked}A fox",)
    whole = {"role": "assistant", "content": f"{STORY}.\n\n"}
    post(http, "/v1/chat/completions", messages=[user, whole], directions=["one"], continue_final_message=True)
    [text] = parts_with(engine.sent[-1], "one")
    assert str(text).startswith(f"{PLAIN}{STORY}.")
    assert str(text).endswith(f"user\n{said}<|im_end|>\n<|im_start|>assistant\n")


def test_a_chat_that_is_continued_by_a_page_has_the_place_that_its_template_tells() -> None:
    http, engine = serve(chat_template=CHATML)
    messages = [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": STORY}]
    body = {"messages": messages, "continue_final_message": True}
    assert "direction_place" not in post(http, "/apply-template", **body).json
    told = post(http, "/apply-template", **body, directions=[""]).json
    post(http, prompt=told["prompt"], direction_place=told["direction_place"], directions=["one", "two"])
    post(http, "/v1/chat/completions", **body, directions=["one", "two"])
    of_page, of_chat = engine.sent
    for direction in ("one", "two"):
        assert parts_with(of_page, direction) == parts_with(of_chat, direction)


def test_a_template_that_leaves_the_direction_out_is_told() -> None:
    http, _ = serve(chat_template="<|im_start|>user\n{{ 'Hello' }}<|im_end|>\n")
    answer = post(http, "/v1/chat/completions", messages=[{"role": "user", "content": "Write it."}], directions=["one"])
    assert answer.status_code == 400
    assert answer.json["error"]["param"] == "directions"


def test_a_direction_stands_before_the_gap_that_is_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    fim = {"pre": 101, "suf": 102, "mid": 103}
    monkeypatch.setattr(scripted, "MODEL", replace(scripted.MODEL, has_fill_in_the_middle=True, fim=fim))
    http, engine = serve()
    post(http, "/v1/completions", model="x", prompt=STORY, suffix=" END", n=2, directions=["one", "two"])
    [command] = engine.sent
    [with_one] = parts_with(Generate("r", (STORY,), (), place=place_in((STORY,))), "one")
    begin = command.prompt[: command.prompt.index(101)]
    assert parts_with(command, "one") == (*begin, 101, with_one, 102, " END", 103)
    assert parts_with(command, "") == (*begin, 101, STORY, 102, " END", 103)
