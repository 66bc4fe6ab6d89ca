"""Conversations through the templates of real models and back: a call, its result and an answer, with thoughts.

`make dev` fetches the templates; without them these tests are skipped, but in CI they fail.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from srb.web.chat.reply_parser import ReplyParser, parse_reply
from srb.web.chat.template import ChatTemplate, Conversation
from tools.chat_templates import FOLDER

UNREAD = ("fireworks-ai-llama-3-firefunction-v2", "muse-glimmer")  # forms of calls that no family has
TEMPLATES = sorted(path for path in FOLDER.glob("*.jinja") if path.stem not in UNREAD)
pytestmark = pytest.mark.skipif(
    not TEMPLATES and not os.environ.get("CI"), reason=f"no templates in {FOLDER}: python -m tools.chat_templates"
)

# Templates that render no thoughts of past replies, or those of calls alone.
NO_THOUGHTS = (
    "Apertus",
    "GigaChat3.1",
    "SmolLM3",
    "Kimi-K2-Instruct",
    "moonshotai-Kimi-K2",
    "LFM2-8B",
    "LFM2.5-Instruct",
)
NO_THOUGHTS += ("MiMo-VL", "MiniMax-M1", "Mistral-Small", "Nemotron-Nano-v2", "Hermes", "Qwen2.5", "Qwen3-Coder", "QwQ")
NO_THOUGHTS += ("Reka", "R1-Distill", "V3.1", "gemma-2", "granite", "rwkv", "functionary", "Llama-3", "Phi-3.5", "Nemo")
NO_THOUGHTS += ("Apriel-1.5", "Devstral", "Solar", "LFM2.5-8B", "V4", "V3.2", "r7b", "Kimi-K2-Thinking")
NO_THOUGHTS += ("GigaChat3", "llama-cpp-deepseek-r1", "command-r-plus")
# The end of a turn that another follows, for templates that render the last reply in another way than those before.
FOLLOWED = {"NVIDIA-Nemotron-Nano-v2": "\n<SPECIAL_12>\n<SPECIAL_11>User"}
# Text of the template after a reply.
AFTERWORDS = (
    "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>Write 'Action:'",
    "<|eot_id|><|start_header_id|>assistant<|end_header_id|>",
)

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "A city."},
                "days": {"type": "integer", "description": "Number of days."},
            },
            "required": ["city"],
        },
    },
}
GIVEN = {"city": 'Oslo "<b>"', "days": 2}
CALL = {
    "id": "abcdefghi",
    "type": "function",
    "function": {"name": "weather", "arguments": orjson.dumps(GIVEN).decode()},
}
ASKED = [{"role": "user", "content": "Weather?"}]
CALLED = [*ASKED, {"role": "assistant", "content": "", "reasoning_content": "¿Rain?", "tool_calls": [CALL]}]
TOLD = [*CALLED, {"role": "tool", "tool_call_id": "abcdefghi", "name": "weather", "content": "rain"}]
ANSWERED = [*TOLD, {"role": "assistant", "content": "Wet.", "reasoning_content": "¿Rain!"}]
ENDS = (
    "<|im_end|>",
    "</s>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<｜end▁of▁sentence｜>",
    "<|END_OF_TURN_TOKEN|>",
    "<seed:eos>",
)
ENDS += (
    "<end_of_sentence>",
    "[e~[",
    "<|return|>",
    "<|eom_id|>",
    "<SPECIAL_12>",
    "<end_of_turn>",
    "<turn|>",
    "<|message_sep|>",
)
ENDS += ("<|role_end|>", "</assistant>", "<sep>", "<|tool_response>", "<|end|>", "<|eot|>", "<|assistant_end|>")
ENDS += ("<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|><|END_THINKING|>", "<｜Assistant｜>")
ENDS += ("<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<|end_of_msg|>", "[e~[", "<｜hy_eos:opensource｜>")
THINK = {"enable_thinking": True, "thinking": True, "datetime": "Nov 22 2026"}


def reply(
    template: ChatTemplate, before: list[dict[str, Any]], after: list[dict[str, Any]], followed: str = ""
) -> tuple[str, bool]:
    """Return the assistant's last message as the template renders it, and whether its beginning is in the prompt."""
    options: dict[str, Any] = {"variables": THINK, "thinking": True}
    prompt = template.prompt(Conversation(before, [TOOL], **options)).text
    follows = [{"role": "user", "content": "And?"}] if followed else []
    whole = template.prompt(Conversation([*after, *follows], [TOOL], add_generation_prompt=False, **options)).text
    whole = whole[: whole.rindex(followed)] if followed else whole
    at = next((place for place, pair in enumerate(zip(prompt, whole, strict=False)) if pair[0] != pair[1]), len(prompt))
    if at < len(prompt):  # not within a marker
        opened = max(prompt.rfind("<", 0, at), prompt.rfind("[", 0, at))
        at = opened if opened > max(prompt.rfind(">", 0, at), prompt.rfind("]", 0, at)) else at
    opening = template.family.reasoning[0].rstrip()
    begun = prompt.rstrip().removesuffix(opening)
    if (
        len(begun) <= at < len(prompt) and "¿Rain" in whole[len(begun) :]
    ):  # thoughts that only a prompt begins with a tag
        return cut(whole[len(begun) :].removeprefix(opening), before), True
    return cut(whole[at:], before), template.family.begins_thinking(prompt[:at])


def cut(text: str, before: list[dict[str, Any]]) -> str:
    """Return a reply without the headers before it and the markers after it."""
    for word in AFTERWORDS:
        text = text.partition(word)[0]
    text = text.rstrip()
    for header in ("<|im_start|>assistant\n", "<|start|>assistant"):  # templates that change a past turn as well
        text = text.rpartition(header)[2] if before is TOLD else text
    while end := next((end for end in ENDS if text.endswith(end)), ""):
        text = text.removesuffix(end).rstrip()
    return text.removeprefix("<|CHATBOT_TOKEN|>")


def test_the_templates_are_here() -> None:
    assert TEMPLATES, f"python -m tools.chat_templates fetches them into {FOLDER}"


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_conversation_is_rendered_and_read_back(path: Path) -> None:
    template = ChatTemplate(path.read_text(), "<s>", "</s>")
    followed = FOLLOWED.get(path.stem, "")
    turns = [reply(template, before, after, followed) for before, after in ((ASKED, CALLED), (TOLD, ANSWERED))]
    found = []
    for text, thinking in turns:
        tools = {"weather": TOOL["function"]["parameters"]}  # type: ignore[index]
        parser = ReplyParser(tools, thinking=thinking, family=template.family)
        found.append(parse_reply(parser, text))
    (said, thought, calls), (answer, _, others) = found
    assert ([(call.name, orjson.loads(call.arguments)) for call in calls], said.strip()) == (
        [("weather", GIVEN)],
        "",
    )
    assert (answer.strip(), others) == ("Wet.", [])
    if not any(name in path.stem for name in NO_THOUGHTS):
        assert thought == "¿Rain?"
