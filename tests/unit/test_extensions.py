"""Dialects and families of other packages: installed, chosen, and refused in one line that names the package."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from pydantic import ValidationError

from srb.config.settings import Settings
from srb.errors import ConfigError
from srb.extensions import DIALECTS, FAMILIES, dialect_names
from srb.web.app import create_app
from srb.welcome import first_screen
from tests.packages import install
from tests.scripted import ScriptedClient

OWN = ("srb", "openai", "responses", "anthropic", "llamacpp", "legacy", "ollama", "kobold")
DIALECT = "from flask import Blueprint\nfrom srb.web.dialect import Dialect\nroutes = Blueprint('other', __name__)\n"
FAMILY = "from srb.web.chat.call_forms import JsonCalls\nfrom srb.web.chat.families import Family\n"
FAMILY += "forms = (JsonCalls(call='<o>'),)\n"


def serve(**settings: Any) -> FlaskClient:
    made = Settings(**settings)
    return create_app(made, ScriptedClient(made)).test_client()


def refusal(**settings: Any) -> str:
    with pytest.raises(ConfigError) as raised:
        serve(**settings)
    assert "\n" not in raised.value.message
    return raised.value.message


# ---- the setting


def test_all_dialects_are_answered_by_default(site: Path) -> None:
    document: dict[str, Any] = serve().get("/openapi.json").json
    assert tuple(tag["name"] for tag in document["tags"]) == OWN == dialect_names()


# A route of each, which takes POST.
SOME = {
    "srb": "/v1/srb/completions",
    "openai": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "llamacpp": "/completion",
    "legacy": "/stream",
    "ollama": "/api/generate",
    "kobold": "/api/v1/generate",
}


@pytest.mark.parametrize("name", OWN)
def test_a_dialect_alone_has_its_routes_and_all_others_are_as_if_they_never_were(name: str) -> None:
    http = serve(dialects=name)
    document: dict[str, Any] = http.get("/openapi.json").json
    for other, path in SOME.items():
        answer = http.post(path, json={})
        assert (path in document["paths"]) == (answer.status_code != 404) == (other == name)
        if other != name:
            assert answer.json == http.post(f"{path}/nowhere", json={}).json
    assert f'route="{SOME[name]}",status="404"' not in http.get("/metrics").text
    assert http.get("/health").status_code == http.get("/v1/models").status_code == 200


def test_the_page_is_there_with_srb_and_finds_all_that_it_asks_for() -> None:
    http = serve(dialects="srb")
    assert [http.get(path).status_code for path in ("/", "/page/main.js", "/v1/models", "/v1/srb/server")] == [200] * 4
    assert http.get("/lora-adapters").status_code == 200
    assert http.post("/apply-template", json={"messages": [{"role": "user", "content": "x"}]}).status_code == 200
    assert http.get("/v1/srb/stories", headers={"Host": "localhost"}).status_code != 404


def test_without_srb_there_is_no_page() -> None:
    http = serve(dialects="openai,llamacpp")
    for path in ("/", "/page/main.js", "/v1/srb/stories", "/v1/srb/server"):
        assert http.get(path).status_code == 404
    with http.get("/completion.js") as module:
        assert module.status_code == 200


def test_the_first_screen_names_only_what_is_answered() -> None:
    said = {names: first_screen("http://x", Settings(dialects=names)) for names in ("all", "srb", "llamacpp", "ollama")}
    assert "page    http://x/\n" in said["all"]
    assert "http://x/v1/srb/completions -d" in said["all"]
    assert "http://x/v1/completions -d" in first_screen("http://x", Settings(dialects="openai"))
    assert "page " not in said["llamacpp"]
    assert "http://x/completion -d" in said["llamacpp"]
    assert "curl" not in said["ollama"]


@pytest.mark.parametrize("names", ["opnai", "srb,opnai", "SRB", "all,srb,opnai"])
def test_an_unknown_dialect_is_refused_by_name_with_the_list_of_what_is_there(names: str) -> None:
    with pytest.raises(
        ConfigError, match=r"dialects \(from SRB_DIALECTS\): there is no dialect .*; there are srb, openai, "
    ):
        Settings.load(environ={"SRB_DIALECTS": names})


@pytest.mark.parametrize("names", ["", " , "])
def test_no_dialect_at_all_is_refused(names: str) -> None:
    with pytest.raises(ValidationError, match="should be all, or some of srb"):
        Settings(dialects=names)


def test_space_and_doubled_names_are_no_matter() -> None:
    assert Settings(dialects=" openai , srb,openai ").dialects == "openai,srb"


# ---- broken packages

BROKEN_DIALECTS = {
    "import nowhere": "cannot be loaded: ModuleNotFoundError: No module named 'nowhere'",
    "raise ValueError('one\\ntwo')": "cannot be loaded: ValueError: one two",
    "": "cannot be loaded: AttributeError",
    "D = 3": "(srb_other:D) is no Dialect, but int",
    DIALECT + "D = Dialect('', routes)": "blueprints should be a tuple of Flask's blueprints",
    DIALECT + "D = Dialect('', ())": "blueprints should be a tuple",
    DIALECT + "D = Dialect('', (routes,), {'x/': str})": "'x/' should begin with /",
    DIALECT + "routes.get('/v1/messages')(str)\nroutes.post('/v1/messages')(repr)\nD = Dialect('', (routes,))":
        "has a route that is there already: POST /v1/messages",
    DIALECT + "routes.get('/v1/srb/completions/<x>')(str)\nD = Dialect('', (routes,))":
        "has a route that is there already: GET /v1/srb/completions/",
    DIALECT + "routes.get('/<path:x>')(str)\nD = Dialect('', (routes,))": "has a route that takes /",
    DIALECT + "routes.get('/page/own')(str)\nroutes.get('/page/x')(str)\nD = Dialect('', (routes,))": "takes /page/x",
    DIALECT + "D = Dialect('', (routes,), {'/v1/': str})": "has a shape for errors below /v1/, where other routes are",
    DIALECT + "D = Dialect('', (routes,), {'/api/': str})": "has a shape for errors below /api/",
    DIALECT + "D = Dialect('', (Blueprint('srb', __name__),))": "cannot be registered",
}  # fmt: skip


@pytest.mark.parametrize("module", BROKEN_DIALECTS)
def test_a_broken_dialect_ends_the_start_in_a_line_with_its_package(site: Path, module: str) -> None:
    install(site, "srb-other", {DIALECTS: {"other": "srb_other:D"}}, module)
    said = refusal()
    assert said.startswith("the dialect 'other' of the package srb-other 1.0 ")
    assert BROKEN_DIALECTS[module] in said
    assert said.endswith("Mend or uninstall the package, or leave it out of the setting dialects")


def test_a_broken_dialect_that_is_left_out_is_not_even_imported(site: Path) -> None:
    install(site, "srb-other", {DIALECTS: {"other": "srb_other:D"}}, "import nowhere")
    assert serve(dialects="srb").get("/v1/srb/server").status_code == 200
    assert "srb_other" not in sys.modules


def test_a_route_below_the_page_is_refused_also_where_there_is_no_page(site: Path) -> None:
    module = DIALECT + "routes.get('/page/<name>')(str)\nD = Dialect('', (routes,))"
    install(site, "srb-other", {DIALECTS: {"other": "srb_other:D"}}, module)
    assert "takes /page/x, which has rules of its own for keys" in refusal(dialects="other", api_key="secret")


@pytest.mark.parametrize("name", ["openai", "all", "Other", "a b"])
def test_a_dialect_with_the_name_of_another_or_none_at_all_is_refused(site: Path, name: str) -> None:
    install(site, "srb-other", {DIALECTS: {name: "srb_other:D"}}, "")
    assert f"the dialect {name!r} of the package srb-other 1.0 has " in refusal()


def test_two_packages_with_one_name_are_both_named(site: Path) -> None:
    for package in ("srb-first", "srb-second"):
        install(site, package, {FAMILIES: {"same": f"{package.replace('-', '_')}:F"}}, FAMILY)
    both = (
        "the family 'same' of the package srb-second 1.0 has the name of the family 'same' of the package srb-first 1.0"
    )
    assert both in refusal()


BROKEN_FAMILIES = {
    "F = {}": "is no Family, but dict",
    "raise RuntimeError": "cannot be loaded: RuntimeError",
    FAMILY + "F = Family('another', ('<o>',), forms)": "has another name in its package: 'another'",
    FAMILY + "F = Family('other', (), forms)": "should have signs",
    FAMILY + "F = Family('other', ('',), forms)": "should have signs",
    FAMILY + "F = Family('other', ('<o>',), ())": "should have forms",
    FAMILY + "F = Family('other', ('<o>',), ('x',))": "should have forms",
    FAMILY
    + "F = Family('other', ('<minimax:tool',), forms)": "has signs that the templates of the family 'minimax-m2' have",
}


@pytest.mark.parametrize("module", BROKEN_FAMILIES)
def test_a_broken_family_ends_the_start_in_a_line_with_its_package(site: Path, module: str) -> None:
    install(site, "srb-other", {FAMILIES: {"other": "srb_other:F"}}, module)
    said = refusal(dialects="srb")
    assert said.startswith("the family 'other' of the package srb-other 1.0 ")
    assert BROKEN_FAMILIES[module] in said
    assert said.endswith("Mend or uninstall the package")


@pytest.mark.parametrize("name", ["hermes", "plain", "glm-4"])
def test_a_family_with_the_name_of_one_of_srbs_own_is_refused(site: Path, name: str) -> None:
    install(site, "srb-other", {FAMILIES: {name: "srb_other:F"}}, FAMILY + f"F = Family({name!r}, ('<o>',), forms)")
    assert "has the name of a family of SRB's own" in refusal()


def test_a_model_of_the_name_of_one_of_srbs_own_breaks_no_description(site: Path) -> None:
    module = DIALECT + (
        "from pydantic import BaseModel\nfrom srb.web.openapi import operation\n"
        "class ChatBody(BaseModel):\n    x: int\n"
        "@routes.post('/other')\n@operation(ChatBody, foreign=False)\ndef view():\n    'Say x.'\n"
        "D = Dialect('', (routes,))"
    )
    install(site, "srb-other", {DIALECTS: {"other": "srb_other:D"}}, module)
    document: dict[str, Any] = serve().get("/openapi.json").json
    names = {
        path: document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        for path in ("/other", "/v1/chat/completions")
    }
    assert len(set(names.values())) == 2
    own = document["components"]["schemas"][names["/v1/chat/completions"].rpartition("/")[2]]
    assert {"type": "null"} in own["properties"]["max_tokens"]["anyOf"]
