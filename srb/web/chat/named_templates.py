"""The chat templates that llama.cpp knows by name (`llama_chat_apply_template`), as Jinja text under the same names.

llama.cpp builds these prompts in C++ (src/llama-chat.cpp); `tests/contract/test_chat_templates.py` compares each of them,
letter by letter. A file's last line break is no part of its template.
"""

from pathlib import Path

NAMED_TEMPLATES = {
    path.stem: path.read_text("utf-8").removesuffix("\n")
    for path in sorted((Path(__file__).parent / "named").glob("*.jinja"))
}
