"""README.md and docs/ name only what there is, and leave out no route, no request field and no error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import AliasChoices

from srb.errors import ConfigError, MachineError, ProtocolError, SRBError
from srb.launch.options import table
from srb.protocol import FinishReason, SamplingParams
from srb.settings import Settings
from srb.web.app import create_app
from srb.web.bodies.completion import CompletionBody
from srb.web.dialects.llamacpp.body import (
    DetokenizeBody,
    EmbeddingBody,
    InfillBody,
    LlamaCompletionBody,
    RerankBody,
    SlotBody,
    TokenizeBody,
)
from srb.web.dialects.openai.chat_body import ChatBody
from srb.web.dialects.openai.completion_body import TextCompletionBody
from srb.web.dialects.openai.guided import GuidedFields
from srb.web.openapi import body_models, field_names

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
API = (ROOT / "docs" / "api.md").read_text()
CODE = re.findall(r"`([^`\n]+)`", "".join(page.read_text() for page in PAGES))  # what stands in `backticks`


def all_routes() -> set[tuple[str, str]]:
    rules = create_app(Settings()).url_map.iter_rules()
    return {(method, rule.rule.replace("<path:", "<")) for rule in rules for method in rule.methods or ()}


def test_every_route_is_documented() -> None:
    routes = {(method, path) for method, path in all_routes() if method not in ("HEAD", "OPTIONS")}
    assert routes
    for method, path in routes:
        assert f"`{method} {path}`" in API


def test_no_route_is_documented_that_is_not_there() -> None:
    documented = [match.groups() for code in CODE if (match := re.fullmatch(r"(GET|POST|DELETE|PUT) (/\S*)", code))]
    assert documented
    assert set(documented) <= all_routes()


def test_every_request_field_is_documented_under_all_its_names() -> None:
    names = {name for names in field_names(TextCompletionBody).values() for name in names}
    table = API.partition("## Request fields")[2].partition("\n## ")[0]
    first_columns = " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("|"))
    assert set(re.findall(r"`(\w+)`", first_columns)) == names


def test_every_field_of_a_chat_is_documented_under_all_its_names() -> None:
    names = set()
    elsewhere = CompletionBody.model_fields.keys() | GuidedFields.model_fields.keys()
    for name in ChatBody.model_fields.keys() - elsewhere | {"logprobs", "top_logprobs"}:
        alias = ChatBody.model_fields[name].validation_alias
        names |= set(map(str, alias.choices)) if isinstance(alias, AliasChoices) else {name}
    table = API.partition("| field, other names")[2].partition("\n\n")[0]
    first_columns = " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", first_columns)) == names


def test_every_field_of_the_llamacpp_dialect_is_documented() -> None:
    section = API.partition("## The llamacpp dialect")[2].partition("\n## ")[0]
    first_columns = " ".join(line.split("|")[1] for line in section.splitlines() if line.startswith("| `"))
    shared = CompletionBody.model_fields.keys() | GuidedFields.model_fields.keys()
    names = LlamaCompletionBody.model_fields.keys() - shared | InfillBody.model_fields.keys()
    assert names <= set(re.findall(r"`(\w+)`", first_columns))
    for body in (TokenizeBody, DetokenizeBody, EmbeddingBody, RerankBody, SlotBody):
        for name in body.model_fields.keys() - {"model"}:
            assert re.search(rf"[`\"]{name}[`\"]", section), name


def test_every_field_of_every_body_is_documented() -> None:
    for model in body_models(create_app(Settings())):
        for name in (name for names in field_names(model).values() for name in names):
            assert f"`{name}`" in API, f"{model.__name__}.{name}"


def test_every_sampling_default_is_documented() -> None:
    rows = [line.split("|") for line in API.splitlines() if line.startswith("| `")]
    documented: dict[str, str] = {}
    for row in rows:
        names = re.findall(r"`(\w+)`", row[1])
        values = [value.strip().rstrip(".") for value in row[3].split(",")] if len(row) > 4 else []
        documented |= dict(zip(names, values, strict=False))
    for name in ("temperature", "top_k", "top_p", "min_p", "typical_p", "repeat_last_n", "dry_base", "mirostat_tau"):
        assert float(documented[name]) == getattr(SamplingParams(), name), name


def test_every_error_that_a_client_may_see_is_documented() -> None:
    def subclasses(cls: type[SRBError]) -> list[type[SRBError]]:
        return [cls, *(below for sub in cls.__subclasses__() for below in subclasses(sub))]

    unseen = {ConfigError, MachineError, ProtocolError}  # said at start, and between our own processes
    for error in subclasses(SRBError):
        if error not in unseen and error.__module__ == "srb.errors":
            assert re.search(rf"\| {error.http_status} \| `{error.type}` \|.*\| `{error.code}` \|", API), error.code
    for reason in FinishReason:
        assert f"`{reason}`" in API


def test_files_classes_and_methods_that_are_named_exist() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "srb").rglob("*.py"))
    paths = [code for code in CODE if re.fullmatch(r"(srb|tests|tools|config|docs|examples)/[\w./]*", code)]
    assert paths
    for path in paths:
        assert (ROOT / path).exists(), path
    for code in CODE:
        if match := re.fullmatch(r"([A-Z][A-Za-z]+)\.(\w+)", code):
            body = re.search(rf"^class {match[1]}\b.*?(?=^class |\Z)", sources, re.MULTILINE | re.DOTALL)
            assert body, code
            assert f"def {match[2]}(" in body[0], code


def tree_lines() -> dict[str, str]:
    """Return the description of each path in the file tree of docs/architecture.md; a folder's path ends in a slash."""
    tree = (ROOT / "docs" / "architecture.md").read_text().partition("## File tree\n\n```text\n")[2].partition("```")[0]
    described: dict[str, str] = {}
    folders: list[str] = []
    for line in tree.splitlines():
        name, _, description = line.strip().partition(" ")
        folders = folders[: (len(line) - len(line.lstrip())) // 2]
        path = "".join([*folders, name])
        assert path not in described, f"{path} is in the file tree twice"
        described[path] = description.strip()
        if name.endswith("/"):
            folders.append(name)
    return described


def test_the_file_tree_names_every_package_and_module_and_describes_each() -> None:
    described = tree_lines()
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "srb").rglob("*.py")}
    packages = {path.removesuffix("__init__.py") for path in modules if path.endswith("/__init__.py")}
    modules = {path for path in modules if not path.endswith("/__init__.py")}
    page = {path.relative_to(ROOT).as_posix() for path in (ROOT / "srb/web/page").rglob("*.js")}
    page = {path for path in page if "/vendor/" not in path}
    assert modules | packages | page <= described.keys()
    for path, description in described.items():
        assert (ROOT / path).exists(), path
        assert description, path


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"], ids=lambda page: page.name)
def test_no_sentence_begins_with_what_who_or_that(page: Path) -> None:
    prose = re.sub(r"^```.*?^```|`[^`\n]+`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"(?:^|[.!?:|]\W*\s)\W*((?:What|Who|That)\b.*)", prose, re.MULTILINE) == []


def anchors(page: Path) -> set[str]:
    """Return the fragments that lead to a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    code = re.compile(r"`[^`\n]*\]\([^`\n]*`")  # shows the form of a link, and is none
    for target in re.findall(r"\]\(([^)]+)\)", code.sub("", page.read_text())):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def test_settings_flags_and_targets_that_are_named_exist() -> None:
    text = "".join(page.read_text() for page in PAGES)
    for variable in re.findall(r"SRB_([A-Z_]+)", text):
        assert variable == "CONFIG" or variable.lower() in Settings.model_fields, variable
    flags = table()
    for line in re.findall(r"srb serve ([^`\n]*)", text):
        for flag in re.findall(r"(?<!\S)--?[a-z][\w-]*", line):
            assert flag.replace("_", "-") in flags, flag
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for target in re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE):
        assert target in targets, target


def test_the_settings_of_the_usage_page_have_the_defaults_they_say() -> None:
    table = (ROOT / "docs" / "usage.md").read_text().partition("## Settings")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| `")]
    assert rows
    said_otherwise = {
        "model": "smollm2",
        "threads": "one per core",
        "cache_cells": "by machine",
        "checkpoint_every": "by size",
    }
    for names, values, _ in rows:
        for name, value in zip(re.findall(r"`(\w+)`", names), values.split(", "), strict=True):
            assert value.strip("`") == said_otherwise.get(name, str(Settings.model_fields[name].default)), name
