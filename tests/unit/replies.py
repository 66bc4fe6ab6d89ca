"""Replies of each family of models, written by hand: thoughts if it has them, and calls of weather(city, days)."""

from __future__ import annotations

GIVEN = '{"city": "Oslo", "days": 2}'
TWO = ["weather", "time"]

# A family's name, and its reply: reasoning "Hm." where it is written, then text "Wait." where it may, then the call.
REPLIES: dict[str, str] = {
    "hermes": f'<think>\nHm.\n</think>\n\nWait.\n<tool_call>\n{{"name": "weather", "arguments": {GIVEN}}}\n</tool_call>',
    "llama-3": f'{{"name": "weather", "parameters": {GIVEN}}}',
    "gpt-oss": "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>Wait.<|end|>"
    f"<|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{GIVEN}<|call|>",
    "gemma-4": '<|channel>thought\nHm.\n<channel|>Wait.<|tool_call>call:weather{city:<|"|>Oslo<|"|>,days:2}<tool_call|>',
    "kimi-k2": "<think>Hm.</think>Wait.<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
    f"<|tool_call_argument_begin|>{GIVEN}<|tool_call_end|><|tool_calls_section_end|>",
    "deepseek-v4": '<think>Hm.</think>Wait.\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="weather">\n'
    '<｜DSML｜parameter name="city" string="true">Oslo</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="days" string="false">2</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
    "deepseek-v3.2": '<think>Hm.</think>Wait.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="weather">\n'
    '<｜DSML｜parameter name="city" string="true">Oslo</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="days" string="false">2</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    "deepseek-r1": "<think>\nHm.\n</think>\n\nWait.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"
    f"weather\n```json\n{GIVEN}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek-v3.1": "<think>Hm.</think>Wait.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>"
    f"{GIVEN}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "minimax-m2": '<think>\nHm.\n</think>\n\nWait.\n<minimax:tool_call>\n<invoke name="weather">\n'
    '<parameter name="city">Oslo</parameter>\n<parameter name="days">2</parameter>\n</invoke>\n</minimax:tool_call>',
    "seed-oss": "<seed:think>Hm.</seed:think>Wait.\n<seed:tool_call>\n<function=weather>\n<parameter=city>Oslo</parameter>\n"
    "<parameter=days>2</parameter>\n</function>\n</seed:tool_call>",
    "qwen3-coder": "<think>\nHm.\n</think>\n\nWait.\n<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n"
    "<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>",
    "glm-4": "<think>Hm.</think>\nWait.<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n"
    "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
    "mistral": f"[THINK]Hm.[/THINK]Wait.[TOOL_CALLS]weather[ARGS]{GIVEN}",
    "mistral-nemo": f'[TOOL_CALLS][{{"name": "weather", "arguments": {GIVEN}, "id": "abcdefghi"}}]',
    "command-r": "<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[\n"
    f'    {{"tool_call_id": "0", "tool_name": "weather", "parameters": {GIVEN}}}\n]<|END_ACTION|>',
    "command-r-plus": f'Action: ```json\n[\n    {{"tool_name": "weather", "parameters": {GIVEN}}}\n]```',
    "granite-3": f'<think>Hm.</think><response>Wait.</response><|tool_call|>[{{"name": "weather", "arguments": {GIVEN}}}]',
    "phi-4": f'<|tool_call|>[{{"name": "weather", "arguments": {GIVEN}}}]<|/tool_call|>',
    "nemotron-v2": f'<think>\nHm.\n</think>\n\n<TOOLCALL>[{{"name": "weather", "arguments": {GIVEN}}}]</TOOLCALL>',
    "apertus": f'<|inner_prefix|>Hm.<|inner_suffix|>Wait.<|tools_prefix|>[{{"weather": {GIVEN}}}]<|tools_suffix|>',
    "apriel": "Here are my reasoning steps:\nHm.\n[BEGIN FINAL RESPONSE]\nWait."
    f'\n<tool_calls>[{{"name": "weather", "arguments": {GIVEN}}}]</tool_calls>',
    "minimax-m1": f'<think>\nHm.\n</think>\nWait.<tool_calls>\n{{"name": "weather", "arguments": {GIVEN}}}\n</tool_calls>',
    "lfm2": "<think>Hm.</think>Wait.<|tool_call_start|>[weather(city='Oslo', days=2)]<|tool_call_end|>",
    "functionary-3.1": f"Wait.<function=weather>{GIVEN}</function>",
    "minicpm-5": "<think>\nHm.\n</think>\n\nWait."
    '<function name="weather"><param name="city">Oslo</param><param name="days">2</param></function>',
    "solar": "<|think|>Hm.<|end|><|begin|>assistant<|content|>Wait.<|tool_calls|><|tool_call:begin|>abcdefghi"
    f"<|tool_call:name|>weather<|tool_call:args|>{GIVEN}<|tool_call:end|><|calls|>",
    "gigachat-3.1": f'Wait.<|function_call|>{{"name": "weather", "arguments": {GIVEN}}}',
    "llama-4": "[weather(city='Oslo', days=2)]",
    "kimi-k3": "<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|>Wait.<|close|>response<|sep|>"
    '<|open|>tools<|sep|><|open|>call tool="weather" index="1"<|sep|>'
    '<|open|>argument key="city" type="string"<|sep|>Oslo<|close|>argument<|sep|>'
    '<|open|>argument key="days" type="number"<|sep|>2<|close|>argument<|sep|>'
    "<|close|>call<|sep|><|close|>tools<|sep|>",
    "hunyuan-3": "<think:opensource>Hm.</think:opensource>Wait.<tool_calls:opensource>\n"
    "<tool_call:opensource>weather<tool_sep:opensource>\n<arg_key:opensource>city</arg_key:opensource>\n"
    "<arg_value:opensource>Oslo</arg_value:opensource>\n<arg_key:opensource>days</arg_key:opensource>\n"
    "<arg_value:opensource>2</arg_value:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>",
    "minimax-m3": '<mm:think>Hm.</mm:think>Wait.]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="weather">'
    "]<]minimax[>[<city>Oslo]<]minimax[>[</city>]<]minimax[>[<days>2]<]minimax[>[</days>]<]minimax[>[</invoke>\n"
    "]<]minimax[>[</tool_call>",
    "functionary-3.2": f">>>all\nWait.>>>weather\n{GIVEN}",
    "gigachat-3": f'Wait.<|message_sep|>\n\nfunction call<|role_sep|>\n{{"name": "weather", "arguments": {GIVEN}}}',
}

# Replies in further forms that models of a family write, with text "Wait." where it may be.
FURTHER: list[tuple[str, str]] = [
    ("granite-3", f'Wait.<tool_call>[{{"name": "weather", "arguments": {GIVEN}}}]'),
    ("granite-3", f'<tool_call>[{{"name": "weather", "arguments": {GIVEN}}}]</tool_call>'),
    ("granite-3", f'<think>Hm.</think><tool_call>\n{{"name": "weather", "arguments": {GIVEN}}}\n</tool_call>'),
    ("llama-4", "<|python_start|>[weather(city='Oslo', days=2)]<|python_end|>"),
    ("llama-4", "Wait.<|python_start|>[weather(city='Oslo', days=2)]"),
    ("llama-4", f'<|python_start|>{{"name": "weather", "parameters": {GIVEN}}}<|python_end|>'),
    ("llama-4", f'<|python_start|>{{"type": "function", "name": "weather", "parameters": {GIVEN}}}<|python_end|>'),
    ("lfm2", f'<|tool_call_start|>[{{"name": "weather", "arguments": {GIVEN}}}]<|tool_call_end|>'),
    ("lfm2", f'Wait.<|tool_call_start|>{{"name": "weather", "arguments": {GIVEN}}}<|tool_call_end|>'),
]

# Two calls in one reply, where a family has its own way of putting them together.
PARALLEL: dict[str, str] = {
    "hermes": '<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>\n<tool_call>\n{"name": "time"}\n</tool_call>',
    "llama-3": '{"name": "weather", "parameters": {}}; {"name": "time", "parameters": {}}',
    "kimi-k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{}"
    "<|tool_call_end|><|tool_call_begin|>functions.time:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
    "<|tool_calls_section_end|>",
    "deepseek-v3.1": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
    "<｜tool▁call▁begin｜>time<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "minimax-m2": '<minimax:tool_call>\n<invoke name="weather">\n</invoke>\n<invoke name="time">\n</invoke>\n'
    "</minimax:tool_call>",
    "qwen3-coder": "<tool_call>\n<function=weather>\n</function>\n</tool_call>\n<tool_call>\n<function=time>\n</function>\n"
    "</tool_call>",
    "glm-4": "<tool_call>weather\n</tool_call>\n<tool_call>time\n</tool_call>",
    "mistral": "[TOOL_CALLS]weather[ARGS]{}[TOOL_CALLS]time[ARGS]{}",
    "mistral-nemo": '[TOOL_CALLS][{"name": "weather", "arguments": {}}, {"name": "time", "arguments": {}}]',
    "apertus": '<|tools_prefix|>[{"weather": {}}, {"time": {}}]<|tools_suffix|>',
    "minimax-m1": '<tool_calls>\n{"name": "weather", "arguments": {}}\n{"name": "time", "arguments": {}}\n</tool_calls>',
    "lfm2": "<|tool_call_start|>[weather(), time()]<|tool_call_end|>",
    "gemma-4": "<|tool_call>call:weather{}<tool_call|><|tool_call>call:time{}<tool_call|>",
    "gpt-oss": "<|channel|>commentary to=functions.weather<|message|>{}<|call|><|start|>assistant to=functions.time"
    "<|channel|>commentary json<|message|>{}<|call|>",
    "functionary-3.2": ">>>weather\n{}>>>time\n{}",
    "minimax-m3": ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="weather">]<]minimax[>[</invoke>\n'
    ']<]minimax[>[<invoke name="time">]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>',
    "kimi-k3": '<|open|>tools<|sep|><|open|>call tool="weather" index="1"<|sep|><|close|>call<|sep|>'
    '<|open|>call tool="time" index="2"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>',
    "hunyuan-3": "<tool_calls:opensource>\n<tool_call:opensource>weather<tool_sep:opensource>\n</tool_call:opensource>\n"
    "<tool_call:opensource>time<tool_sep:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>",
}
