"""Bodies made from /openapi.json, good and bad: whatever comes, no route answers 500, and answers have their shapes."""

from __future__ import annotations

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from srb.config.settings import Settings
from srb.web.app import create_app
from tests.scripted import ScriptedClient
from tests.walks import examples

app = create_app(Settings(props=True), ScriptedClient(Settings()))
schema = schemathesis.openapi.from_wsgi("/openapi.json", app).include(method="POST")


@schema.parametrize()
@settings(
    max_examples=examples(10), deadline=None, derandomize=True, database=None,
    phases=[Phase.generate], suppress_health_check=list(HealthCheck),
)  # fmt: skip
def test_no_body_that_the_document_allows_or_forbids_is_a_server_error(case: Case) -> None:
    response = case.call()
    assert response.status_code != 500
    case.validate_response(response, checks=[content_type_conformance, response_schema_conformance])
