"""The chat templates that llama.cpp knows by name (`llama_chat_apply_template`), as Jinja text under the same names.

llama.cpp builds these prompts in C++ (src/llama-chat.cpp); `tests/contract/test_chat_templates.py` compares each of them,
letter by letter.
"""

from __future__ import annotations

STRIPPED = r"message.content.strip(' \t\n\v\f\r')"  # of what C's isspace knows; Jinja's `trim` removes more
ROLE, TEXT, TRIMMED = "{{ message.role }}", "{{ message.content }}", f"{{{{ {STRIPPED} }}}}"


def _each(turn: str, reply: str = "", before: str = "", set_up: str = "") -> str:
    """Return a template: `before`, then `turn` for each message, then `reply`, with which the assistant's turn begins."""
    begin = f"{{% if add_generation_prompt %}}{reply}{{% endif %}}" if reply else ""
    return f"{set_up}{before}{{% for message in messages %}}{turn}{{% endfor %}}{begin}"


def _if(condition: str, then: str, otherwise: str = "") -> str:
    return f"{{% if {condition} %}}{then}{{% else %}}{otherwise}{{% endif %}}"


def _by_role(otherwise: str = "", **turns: str) -> str:
    """Return a turn that depends on the message's role; the other roles have the turn `otherwise`."""
    turn = otherwise
    for role, text in reversed(turns.items()):
        turn = _if(f"message.role == '{role}'", text, turn)
    return turn


def _instructions(lead: str, after: str, before_reply: str, reply_text: str) -> str:
    """Return Mistral's form of 2023 and 2024: a system message stands in the instruction of the next user message."""
    turns = _by_role(
        system=f"{TEXT}\n\n",
        user=f"{TEXT}{lead}[/INST]",
        otherwise=f"{before_reply}{reply_text}</s>{{% set turn.is_open = false %}}",
    )
    begin = _if("not turn.is_open", f"{lead}[INST]{after}{{% set turn.is_open = true %}}")
    return _each(begin + turns, set_up="{% set turn = namespace(is_open=false) %}")


def _llama_2(system: str, begin: str = "[INST] ", text: str = TEXT) -> str:
    turns = _by_role(system=system, user=f"{text} [/INST]", otherwise=f"{text}</s>{{% set turn.is_open = false %}}")
    begins = _if("not turn.is_open", f"{begin}{{% set turn.is_open = true %}}")
    return _each(begins + turns, before="[INST] ", set_up="{% set turn = namespace(is_open=true) %}")


def _with_system_text(turn: str, reply: str = "", system: str = "message.content") -> str:
    """Return a template without a system role: the texts of system messages are gathered, and `turn` places them."""
    gathered = f"{{% set gathered.text = gathered.text + {system} %}}"
    return _each(_by_role(turn, system=gathered), reply, set_up="{% set gathered = namespace(text='') %}")


_SYSTEM_TEXT = _if("gathered.text", "{{ gathered.text }}\n\n{% set gathered.text = '' %}")
_LLAMA_2_SYSTEM = f"<<SYS>>\n{TEXT}\n<</SYS>>\n\n"
_UPPER_ROLE = "<role>" + _if("message.role == 'user'", "HUMAN", "{{ message.role | upper }}") + "</role>"
_GRANITE_4 = _each(
    "<|start_of_role|>"
    + _by_role(assistant_tool_call="assistant<|end_of_role|><|tool_call|>", otherwise=f"{ROLE}<|end_of_role|>")
    + f"{TEXT}<|end_of_text|>\n",
    "<|start_of_role|>assistant<|end_of_role|>",
)


def _special(name: str) -> str:
    """Return DeepSeek's and Hunyuan's form of a special token."""
    return f"<｜{name.replace(' ', '▁')}｜>"


def _exaone(begin: str, end: str, after_user: str, *roles: str) -> str:
    """Return EXAONE's form; `begin` and `end` surround a role, `after_user` follows a user's text."""
    turns = {role: f"{begin.replace('ROLE', role)}{TRIMMED}{end}" for role in ("system", "assistant", *roles)}
    turns["user"] = f"{begin.replace('ROLE', 'user')}{TRIMMED}{after_user}"
    return _each(_by_role(**turns), begin.replace("ROLE", "assistant"))


NAMED_TEMPLATES = {
    "chatml": _each(f"<|im_start|>{ROLE}\n{TEXT}<|im_end|>\n", "<|im_start|>assistant\n"),
    "llama2": _llama_2(f"{TEXT}\n"),
    "llama2-sys": _llama_2(_LLAMA_2_SYSTEM),
    "llama2-sys-bos": _llama_2(_LLAMA_2_SYSTEM, begin="<s>[INST] "),
    "llama2-sys-strip": _llama_2(f"<<SYS>>\n{TRIMMED}\n<</SYS>>\n\n", text=TRIMMED),
    "mistral-v1": _instructions(" ", " ", " ", TEXT),
    "mistral-v3": _instructions("", " ", " ", TRIMMED),
    "mistral-v3-tekken": _instructions("", "", "", TEXT),
    "mistral-v7": _each(
        _by_role(
            system=f"[SYSTEM_PROMPT] {TEXT}[/SYSTEM_PROMPT]", user=f"[INST] {TEXT}[/INST]", otherwise=f" {TEXT}</s>"
        )
    ),
    "mistral-v7-tekken": _each(
        _by_role(system=f"[SYSTEM_PROMPT]{TEXT}[/SYSTEM_PROMPT]", user=f"[INST]{TEXT}[/INST]", otherwise=f"{TEXT}</s>")
    ),
    "phi3": _each(f"<|{ROLE}|>\n{TEXT}<|end|>\n", "<|assistant|>\n"),
    "phi4": _each(f"<|im_start|>{ROLE}<|im_sep|>{TEXT}<|im_end|>", "<|im_start|>assistant<|im_sep|>"),
    "falcon3": _each(f"<|{ROLE}|>\n{TEXT}\n", "<|assistant|>\n"),
    "zephyr": _each(f"<|{ROLE}|>\n{TEXT}<|endoftext|>\n", "<|assistant|>\n"),
    "monarch": _each(_if("loop.first", "", "<s>") + f"{ROLE}\n{TEXT}</s>\n", "<s>assistant\n"),
    "gemma": _with_system_text(
        _by_role(
            assistant=f"<start_of_turn>model\n{TRIMMED}<end_of_turn>\n",
            model=f"<start_of_turn>model\n{TRIMMED}<end_of_turn>\n",
            otherwise=f"<start_of_turn>{ROLE}\n{_SYSTEM_TEXT}{TRIMMED}<end_of_turn>\n",
        ),
        "<start_of_turn>model\n",
        system=STRIPPED,
    ),
    "orion": _with_system_text(
        _by_role(user=f"Human: {_SYSTEM_TEXT}{TEXT}\n\nAssistant: </s>", otherwise=f"{TEXT}</s>")
    ),
    "openchat": _each(
        _by_role(
            system=f"{TEXT}<|end_of_turn|>",
            otherwise="GPT4 Correct {{ message.role[0] | upper }}{{ message.role[1:] }}: " + f"{TEXT}<|end_of_turn|>",
        ),
        "GPT4 Correct Assistant:",
    ),
    "vicuna": _each(
        _by_role(system=f"{TEXT}\n\n", user=f"USER: {TEXT}\n", assistant=f"ASSISTANT: {TEXT}</s>\n"), "ASSISTANT:"
    ),
    "vicuna-orca": _each(
        _by_role(system=f"SYSTEM: {TEXT}\n", user=f"USER: {TEXT}\n", assistant=f"ASSISTANT: {TEXT}</s>\n"),
        "ASSISTANT:",
    ),
    "deepseek": _each(
        _by_role(
            system=TEXT, user=f"### Instruction:\n{TEXT}\n", assistant=f"### Response:\n{TEXT}\n<|EOT|>\n"
        ),
        "### Response:\n",
    ),
    "deepseek2": _each(
        _by_role(
            system=f"{TEXT}\n\n",
            user=f"User: {TEXT}\n\n",
            assistant=f"Assistant: {TEXT}{_special('end of sentence')}",
        ),
        "Assistant:",
    ),
    "deepseek3": _each(
        _by_role(
            system=f"{TEXT}\n\n",
            user=f"{_special('User')}{TEXT}",
            assistant=f"{_special('Assistant')}{TEXT}{_special('end of sentence')}",
        ),
        _special("Assistant"),
    ),
    "deepseek-ocr": _each(TEXT),
    "command-r": _each(
        _by_role(
            **{
                role: f"<|START_OF_TURN_TOKEN|><|{token}_TOKEN|>{TRIMMED}<|END_OF_TURN_TOKEN|>"
                for role, token in {"system": "SYSTEM", "user": "USER", "assistant": "CHATBOT"}.items()
            }
        ),
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
    ),
    "llama3": _each(
        f"<|start_header_id|>{ROLE}<|end_header_id|>\n\n{TRIMMED}<|eot_id|>",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    "chatglm3": _each(f"<|{ROLE}|>\n {TEXT}", "<|assistant|>", before="[gMASK]sop"),
    "chatglm4": _each(f"<|{ROLE}|>\n{TEXT}", "<|assistant|>\n", before="[gMASK]<sop>"),
    "glmedge": _each(f"<|{ROLE}|>\n{TEXT}", "<|assistant|>"),
    "minicpm": _each(_by_role(user=f"<用户>{TRIMMED}<AI>", otherwise=TRIMMED)),
    "exaone3": _exaone("[|ROLE|]", "[|endofturn|]\n", "\n"),
    "exaone4": _exaone("[|ROLE|]", "[|endofturn|]\n", "\n", "tool"),
    "exaone-moe": _exaone("<|ROLE|>\n", "<|endofturn|>\n", "<|endofturn|>\n", "tool"),
    "rwkv-world": _each(
        _by_role(
            system=f"System: {TRIMMED}\n\n",
            user=f"User: {TRIMMED}\n\n" + _if("loop.last", "Assistant:"),
            assistant=f"Assistant: {TRIMMED}\n\n",
        )
    ),
    "granite": _each(
        f"<|start_of_role|>{ROLE}<|end_of_role|>"
        + _by_role(assistant_tool_call="<|tool_call|>")
        + f"{TEXT}<|end_of_text|>\n",
        "<|start_of_role|>assistant<|end_of_role|>",
    ),
    "granite-4.0": _GRANITE_4,
    "granite-4.1": _GRANITE_4,
    "gigachat": _each(
        _by_role(
            system=_if("loop.first", f"{TEXT}<|message_sep|>"),
            user=f"user<|role_sep|>{TEXT}<|message_sep|>available functions<|role_sep|>[]<|message_sep|>",
            assistant=f"assistant<|role_sep|>{TEXT}<|message_sep|>",
        ),
        "assistant<|role_sep|>",
        before="<s>",
    ),
    "megrez": _each(
        f"<|role_start|>{ROLE}<|role_end|>{TEXT}<|turn_end|>", "<|role_start|>assistant<|role_end|>"
    ),
    "yandex": _each(
        _by_role(user=f" Пользователь: {TEXT}\n\n", assistant=f" Ассистент: {TEXT}\n\n"), " Ассистент:[SEP]"
    ),
    "bailing": _each(_UPPER_ROLE + TEXT, "<role>ASSISTANT</role>"),
    "bailing-think": _each(_UPPER_ROLE + TEXT, "<role>ASSISTANT</role><think>"),
    "bailing2": _each(
        _UPPER_ROLE + f"{TEXT}<|role_end|>",
        "<role>ASSISTANT</role>",
        before=_if("messages[0].role != 'system'", "<role>SYSTEM</role>detailed thinking off<|role_end|>"),
    ),
    "llama4": _each(
        f"<|header_start|>{ROLE}<|header_end|>\n\n{TRIMMED}<|eot|>", "<|header_start|>assistant<|header_end|>\n\n"
    ),
    "smolvlm": _each(
        _by_role(
            system=f"{TEXT}\n\n",
            user=f"User: {TEXT}<end_of_utterance>\n",
            otherwise=f"Assistant: {TEXT}<end_of_utterance>\n",
        ),
        "Assistant:",
        before="<|im_start|>",
    ),
    "hunyuan-moe": _each(
        _by_role(
            system=f"<|startoftext|>{TEXT}<|extra_4|>",
            assistant=f"{TEXT}<|eos|>",
            otherwise=f"<|startoftext|>{TEXT}<|extra_0|>",
        )
    ),
    "gpt-oss": _each(
        f"<|start|>{ROLE}<|message|>{TEXT}" + _by_role(assistant="<|return|>", otherwise="<|end|>"),
        "<|start|>assistant",
    ),
    "hunyuan-dense": _each(
        _by_role(
            system=_if("loop.first", f"{TEXT}{_special('hy_place holder no 3')}"),
            assistant=f"{_special('hy_Assistant')}{TEXT}{_special('hy_place holder no 2')}",
            user=f"{_special('hy_User')}{TEXT}{_special('hy_Assistant')}",
        )
    ),
    "hunyuan-vl": _each(
        _by_role(
            system=_if("loop.first", f"{TEXT}{_special('hy_place holder no 3')}"),
            user=f"{TEXT}{_special('hy_User')}",
            assistant=f"{TEXT}{_special('hy_Assistant')}",
        ),
        before=_special("hy_begin of sentence"),
    ),
    "kimi-k2": _each(
        _by_role(
            system="<|im_system|>system<|im_middle|>",
            user="<|im_user|>user<|im_middle|>",
            assistant="<|im_assistant|>assistant<|im_middle|>",
            tool="<|im_system|>tool<|im_middle|>",
        )
        + f"{TEXT}<|im_end|>",
        "<|im_assistant|>assistant<|im_middle|>",
    ),
    "seed_oss": _each(
        f"<seed:bos>{ROLE}\n" + _by_role(assistant=TRIMMED, otherwise=TEXT) + "<seed:eos>", "<seed:bos>assistant\n"
    ),
    "grok-2": _each(
        _by_role(
            system=f"System: {TRIMMED}<|separator|>\n\n",
            user=f"Human: {TRIMMED}<|separator|>\n\n",
            assistant=f"Assistant: {TEXT}<|separator|>\n\n",
        ),
        "Assistant:",
    ),
    "pangu-embedded": _each(
        _by_role(
            **{
                role: f"[unused9]{name}：{TEXT}[unused10]"
                for role, name in {
                    "system": "系统", "user": "用户", "assistant": "助手", "tool": "工具", "function": "方法",
                }.items()
            }
        ),
        "[unused9]助手：",
        before=_if("messages[0].role != 'system'", "[unused9]系统：[unused10]"),
    ),
    "solar-open": _each(f"<|begin|>{ROLE}<|content|>{TEXT}<|end|>", "<|begin|>assistant"),
}  # fmt: skip
