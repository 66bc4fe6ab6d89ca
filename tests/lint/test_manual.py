"""README.md and docs/ name only what there is, and leave out no route, no request field and no error."""

from __future__ import annotations

import re
from pathlib import Path

from srb.cli.options import table
from srb.config.settings import Settings
from srb.errors import ConfigError, MachineError, ProtocolError, SRBError
from srb.web.app import create_app
from srb.web.bodies.unread import field_names
from srb.web.openapi import body_models
from srb.wire.events import FinishReason

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
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


def test_every_field_of_every_body_is_documented() -> None:
    for model in body_models(create_app(Settings())):
        for name in (name for names in field_names(model).values() for name in names):
            assert f"`{name}`" in API, f"{model.__name__}.{name}"


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


def anchors(page: Path) -> set[str]:
    """Return the fragments that lead to a page's headings, as GitHub makes them, and to its anchors."""
    text = page.read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    made = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return made | set(re.findall(r'<a id="([\w-]+)"></a>', text))


def broken_links(page: Path) -> list[str]:
    """Return the targets of a page's links that lead to no file or to no heading."""
    code = re.compile(r"`[^`\n]*\]\([^`\n]*`")  # shows the form of a link, and is none
    found = []
    for target in re.findall(r"\]\(([^)]+)\)", code.sub("", page.read_text())):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            found.append(target)
    return found


def test_links_lead_to_files_and_headings() -> None:
    assert [(page.name, target) for page in PAGES for target in broken_links(page)] == []


def test_links_from_elsewhere_to_a_section_of_the_usage_page_lead_to_its_row() -> None:
    sections = {"your-own-model", "examples", "pictures-and-sounds", "several-models", "branches-and-seeds", "prose"}
    sections |= {"settings", "gpu", "as-a-service", "keys-names-and-https", "in-place-of-llama-server", "speed"}
    sections |= {"memory-room-and-speed-of-this-machine", "speculation", "not-supported"}
    assert sections - anchors(ROOT / "docs" / "usage.md") == set()


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A heading, here\n[a](#a-heading-here) [b](#elsewhere) [c](page.md) [d](none.md) `[e](none)`")
    assert broken_links(page) == ["#elsewhere", "none.md"]


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


def test_the_settings_of_the_page_about_them_have_the_defaults_they_say() -> None:
    table = (ROOT / "docs" / "using" / "settings.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| `")]
    assert rows
    said_otherwise = {
        "model": "smollm2",
        "threads": "one per core",
        "cache_cells": "by machine",
        "cache_disk_mib": "by free space",
    }
    for names, values, _ in rows:
        for name, value in zip(re.findall(r"`(\w+)`", names), values.split(", "), strict=True):
            assert value.strip("`") == said_otherwise.get(name, str(Settings.model_fields[name].default)), name
