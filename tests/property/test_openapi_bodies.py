"""Bodies made from /openapi.json, good and bad: whatever comes, no route answers 500, and answers have their shapes."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from srb.config.settings import Settings
from srb.web.app import create_app
from tests.scripted import ScriptedClient
from tests.walks import examples

APP = create_app(Settings(), ScriptedClient(Settings()))
POSTS = sorted(
    rule.rule.replace("<path:", "<").replace("<", "{").replace(">", "}")
    for rule in APP.url_map.iter_rules()
    if "POST" in (rule.methods or ())
)


@cache
def described() -> Any:
    import schemathesis  # takes a second, also where these tests are only listed

    return schemathesis.openapi.from_wsgi("/openapi.json", APP)


@pytest.mark.parametrize("path", POSTS)
def test_no_body_that_the_document_allows_or_forbids_is_a_server_error(path: str) -> None:
    from schemathesis import GenerationMode
    from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

    operation = described()[path]["POST"]

    @settings(
        max_examples=examples(10), deadline=None, derandomize=True, database=None,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in GenerationMode)))
    def check(case: Any) -> None:
        response = case.call()
        assert response.status_code != 500
        case.validate_response(response, checks=[content_type_conformance, response_schema_conformance])

    check()
