"""README.md and docs/ name only what there is, and leave out no route, no request field and no error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import AliasChoices

from srb.errors import ConfigError, ProtocolError, SRBError
from srb.options import table
from srb.protocol import FinishReason, SamplingParams
from srb.settings import Settings
from srb.web.app import create_app
from srb.web.chat_schemas import ChatBody
from srb.web.llamacpp_schemas import (
    DetokenizeBody,
    EmbeddingBody,
    InfillBody,
    LlamaCompletionBody,
    RerankBody,
    SlotBody,
    TokenizeBody,
)
from srb.web.openapi import body_models, field_names
from srb.web.schemas import CompletionBody
from srb.web.text_schemas import TextCompletionBody

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
API = (ROOT / "docs" / "api.md").read_text()
CODE = re.findall(r"`([^`\n]+)`", "".join(page.read_text() for page in PAGES))  # what stands in `backticks`


def test_every_route_is_documented() -> None:
    rules = create_app(Settings()).url_map.iter_rules()
    routes = {(method, rule.rule) for rule in rules for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}}
    assert routes
    for method, path in routes:
        assert f"`{method} {path}`" in API


def test_no_route_is_documented_that_is_not_there() -> None:
    rules = [
        (method, rule.rule) for rule in create_app(Settings()).url_map.iter_rules() for method in rule.methods or ()
    ]
    documented = [match.groups() for code in CODE if (match := re.fullmatch(r"(GET|POST|DELETE|PUT) (/\S*)", code))]
    assert documented
    assert set(documented) <= set(rules)


def test_every_request_field_is_documented_under_all_its_names() -> None:
    names = {name for names in field_names(TextCompletionBody).values() for name in names}
    table = API.partition("## Request fields")[2].partition("\n## ")[0]
    first_columns = " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("|"))
    assert set(re.findall(r"`(\w+)`", first_columns)) == names


def test_every_field_of_a_chat_is_documented_under_all_its_names() -> None:
    names = set()
    for name in ChatBody.model_fields.keys() - CompletionBody.model_fields.keys() | {"logprobs", "top_logprobs"}:
        alias = ChatBody.model_fields[name].validation_alias
        names |= set(map(str, alias.choices)) if isinstance(alias, AliasChoices) else {name}
    table = API.partition("| field, other names")[2].partition("\n\n")[0]
    first_columns = " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", first_columns)) == names


def test_every_field_of_the_llamacpp_dialect_is_documented() -> None:
    section = API.partition("## The llamacpp dialect")[2].partition("\n## ")[0]
    first_columns = " ".join(line.split("|")[1] for line in section.splitlines() if line.startswith("| `"))
    names = (
        LlamaCompletionBody.model_fields.keys() - CompletionBody.model_fields.keys() | InfillBody.model_fields.keys()
    )
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

    unseen = {ConfigError, ProtocolError}  # said at start, and between our own processes
    for error in subclasses(SRBError):
        if error not in unseen and error.__module__ == "srb.errors":
            assert re.search(rf"\| {error.http_status} \| `{error.type}` \|.*\| `{error.slug}` \|", API), error.slug
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_settings_flags_and_targets_that_are_named_exist() -> None:
    text = "".join(page.read_text() for page in PAGES)
    for variable in re.findall(r"SRB_([A-Z_]+)", text):
        assert variable == "CONFIG" or variable.lower() in Settings.model_fields, variable
    flags = table()
    for line in re.findall(r"srb serve ([^`\n]*)", text):
        for flag in re.findall(r"(?<!\S)--?[a-z][\w-]*", line):
            assert flag in flags, flag
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for target in re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE):
        assert target in targets, target


def test_the_settings_of_the_readme_have_the_defaults_they_say() -> None:
    table = (ROOT / "README.md").read_text().partition("## Settings")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| `")]
    assert rows
    said_otherwise = {"model": "the storyteller", "threads": "one per core", "cache_cells": "by machine"}
    for names, values, _ in rows:
        for name, value in zip(re.findall(r"`(\w+)`", names), values.split(", "), strict=True):
            assert value.strip("`") == said_otherwise.get(name, str(Settings.model_fields[name].default)), name
