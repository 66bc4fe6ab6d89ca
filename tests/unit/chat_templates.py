"""Chat templates in the style of those in the wild, each with what makes it special."""

CHATML = r"""{% for message in messages %}
{{- '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""

LLAMA_3 = r"""{{- bos_token }}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if tools is not none %}
    {{- 'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.\n' }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
        {{- message.content }}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"""

GEMMA = r"""{{ bos_token }}
{%- if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for message in messages %}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}
{%- if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}
{{- '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"""

MISTRAL = r"""{{- bos_token }}
{%- for message in messages %}
{%- if message['role'] == 'user' %}{{- '[INST] ' + message['content'] + ' [/INST]' }}
{%- elif message['role'] == 'assistant' %}{{- ' ' + message['content'] + eos_token }}
{%- else %}{{- raise_exception('Only user and assistant roles are supported!') }}{% endif %}
{%- endfor %}"""

QWEN_3 = r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {{- "# Tools\n<tools>" }}
    {%- for tool in tools %}{{- "\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\n</tools>\nFor each call: <tool_call>\n{\"name\": <name>, \"arguments\": <args>}\n</tool_call><|im_end|>\n" }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == "assistant" and message.tool_calls %}
        {{- '<|im_start|>assistant\n' + message.content }}
        {%- for tool_call in message.tool_calls %}
            {%- set tool_call = tool_call.function %}
            {{- '<tool_call>\n{"name": "' + tool_call.name + '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {{- '<|im_start|>user\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' }}
    {%- else %}
        {%- set content = message.content %}
        {%- if message.role == "assistant" and '</think>' in content %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}"""

# Its date and its functions are text, without which it fails.
FIREFUNCTION = r"""{{ "<|start|>system\n" + (messages[0].content if messages[0].role == "system" else "You are helpful.") }}
{{- "\n" + functions + "\nToday is " + datetime + "." }}
{%- for message in messages %}{% if loop.index0 > 0 or message.role != "system" %}
{{- "<|start|>" + message.role + "\n" + message.content }}{% endif %}{% endfor %}{{ "<|start|>assistant\n" }}"""

SMOLLM3 = r"""{{ "<|im_start|>system\n" }}
{%- if messages[0].role == "system" %}{{ messages[0].content }}{% else %}{{ "You are SmolLM." }}{% endif %}
{%- if xml_tools or python_tools %}{{ "\n\n### Tools\n" }}
{%- if xml_tools %}{{ "<tools>\n" }}{% for tool in xml_tools[:] %}{{ (tool | string) ~ "\n" }}{% endfor %}
{{- '</tools>\nReturn {"name": <function-name>, "arguments": <args-json-object>} within <tool_call></tool_call>.' }}
{%- endif %}
{%- if python_tools %}{{ "<tools>\n" ~ python_tools ~ "</tools>\nReturn <code></code>." }}{% endif %}{% endif %}
{{- "<|im_end|>\n" }}
{%- for message in messages %}{% if message.role != "system" %}
{{- "<|im_start|>" + message.role + "\n" + (message.content or "") + "<|im_end|>\n" }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ "<|im_start|>assistant\n" }}{% endif %}"""

GRANITE_3_1 = r"""{%- if tools %}
{{- '<|start_of_role|>tools<|end_of_role|>' + tools | tojson(indent=4) + '<|end_of_text|>\n' }}{% endif %}
{%- for message in messages %}
{%- if message.role == 'assistant_tool_call' %}
{{- '<|start_of_role|>assistant<|end_of_role|><|tool_call|>' + message.content }}
{%- else %}{{ '<|start_of_role|>' + message.role + '<|end_of_role|>' + message.content + '<|end_of_text|>\n' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}{{ '<|start_of_role|>assistant<|end_of_role|>' }}{% endif %}"""

DEEPSEEK = r"""{{ bos_token }}{% for message in messages %}
{%- if message['role'] == 'user' %}{{ '<User>' + message['content'] }}{% endif %}
{%- if message['role'] == 'assistant' and not message['tool_calls'] %}
{{- '<Assistant>' + message['content'] + '<end>' }}{% endif %}
{%- if message['role'] == 'assistant' and message['tool_calls'] %}{%- for call in message['tool_calls'] %}
{{- '<call>' + call['function']['name'] + '\n' + call['function']['arguments'] + '<end>' }}{% endfor %}{% endif %}
{%- if message['role'] == 'tool' %}{{ '<output>' + message['content'] }}{% endif %}
{%- endfor %}{% if tools %}{{ tools|length }} tools{% endif %}
{%- if add_generation_prompt %}{{ '<Assistant><think>\n' }}{% endif %}"""

ONLY_PARTS = r"""{% for message in messages %}[{{ message.role }}]
{%- for part in message.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}[end]{% endfor %}
{%- if add_generation_prompt %}[assistant]{% endif %}"""
