"""A conversation of Anthropic's Messages as messages and tools of a chat.

All functions raise ValueError with a message that fits after "Field 'x': ", and NotSupported for tools that Anthropic
defines.
"""

import re
from typing import Any

from srb.errors import NotSupported
from srb.web.bodies.fields import short_json
from srb.web.dialects.openai.chat_fields import chat_tool
from srb.web.dialects.openai.conversations import Form, Message

FORM = Form(part="{}, block {}", roles=("user", "assistant", "system", "developer", "tool", "function"))
# Claude Code begins its system prompt with a line of which this part is another one in each request.
_BILLING = re.compile(r"^(x-anthropic-billing-header:[^\n]*?\bcch=)[0-9a-zA-Z]+(?=;)")


def system_messages(value: Any) -> list[Message]:
    """Return the message of a body's `system`: a string, or blocks of text, which are joined as in llama-server.

    The changing part of Claude Code's billing header is made constant: otherwise no turn's prompt would continue the last.
    """
    if value is None:
        return []
    text = "".join(_steady(each) for each in ([value] if isinstance(value, str) else _texts("it", value)))
    return [{"role": "system", "content": text}] if text else []


def _steady(text: str) -> str:
    return _BILLING.sub(r"\1fffff", text)


def _texts(where: str, blocks: Any) -> list[str]:
    if not isinstance(blocks, list):
        raise ValueError(f"{where} must be a string or a list of blocks")
    for block in blocks:
        if not isinstance(block, dict) or block.get("type") != "text" or not isinstance(block.get("text"), str):
            raise ValueError(f'{where} may have blocks of the form {{"type": "text", "text": "…"}} only')
    return [block["text"] for block in blocks]


# Tools ----------------------------------------------------------------------------------------------------------------


def chat_tools(value: Any) -> list[Any]:
    """Return the tools in the form of chats; those of chats and Responses, too."""
    if not isinstance(value, list):
        raise ValueError("must be a list of tools")
    return [_tool(place, tool) for place, tool in enumerate(value)]


def _tool(place: int, tool: Any) -> Any:
    if not isinstance(tool, dict):
        raise ValueError(f"tool {place} must be an object, but got {short_json(tool)}")
    if tool.get("type") == "function":
        return chat_tool(tool)
    if tool.get("type") not in (None, "custom"):
        raise NotSupported(
            f"Field 'tools': tool {place} is of type {short_json(tool['type'])}; only those with input_schema are known",
            param="tools",
        )
    if not isinstance(tool.get("input_schema"), dict | bool):
        raise ValueError(f"tool {place} must have an 'input_schema', an object or true")
    return chat_tool(tool)
