"""The door of the story routes: no page but the server's own gets in, with whatever headers and settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.web.app import create_app
from srb.web.stories import origin_check
from tests.scripted import ScriptedClient

KEY = "a secret that only we know"
ROOT = origin_check.ROOT
ONE = f"{ROOT}/abc"
ROUTES = [("GET", ROOT), ("POST", ROOT), ("GET", ONE), ("POST", ONE), ("DELETE", ONE), ("POST", f"{ONE}/restore"),
          ("GET", f"{ONE}/export"), ("POST", f"{ONE}/media"), ("GET", f"{ONE}/media/0")]  # fmt: skip
JSON = {"CONTENT_TYPE": "application/json"}
OPEN = {"cors_origins": "*"}
HTTP, HTTPS = "http", "https"


class Doors:
    """Servers of each test's settings, with one story; made once, since the door alone is tested."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, FlaskClient] = {}

    def __call__(self, **settings: Any) -> FlaskClient:
        name = repr(settings)
        if name not in self._made:
            self._made[name] = self._make(settings)
        return self._made[name]

    def _make(self, settings: dict[str, Any]) -> FlaskClient:
        chosen = Settings(stories=str(self._folder / f"{len(self._made)}.sqlite3"), **settings)
        http = create_app(chosen, ScriptedClient(chosen)).test_client()
        key = {"X-Api-Key": KEY} if chosen.api_key else {}
        body = b'{"nodes": {"n": {"text": "mine", "by": "person"}}}'
        url = chosen.api_prefix + ONE
        assert http.post(url, data=body, content_type="application/json", headers=key).status_code == 200
        return http


@pytest.fixture(scope="module")
def door_of(tmp_path_factory: pytest.TempPathFactory) -> Doors:
    return Doors(tmp_path_factory.mktemp("doors"))


def status(http: FlaskClient, method: str = "GET", path: str = ONE, scheme: str = HTTP, **environ: str) -> int:
    """Send a request with these WSGI variables, as a browser might; return the status."""
    fields = {"CONTENT_TYPE": "application/json", "wsgi.url_scheme": scheme, "PATH_INFO": path, **environ}
    data = b"{}" if method == "POST" else b""
    with http.open("/", method=method, data=data, environ_overrides=fields) as response:
        assert_closed(response)
        return response.status_code


def assert_closed(response: Any) -> None:
    """Check that the answer tells a foreign page nothing."""
    assert not [name for name, _ in response.headers if name.lower().startswith("access-control-")]
    assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cache-Control"] == "no-store"


# Origins --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "https://evil.example", "null", "http://localhost:8080", "http://127.0.0.1:9090", "file://",
     "http://localhost.evil.example", "http://evil.example@localhost", "http://localhost:9090.evil.example", "localhost",
     "", "http://", "http://[", "ftp://localhost", "http://localhost/x", "http://localhost, http://localhost"],
)  # fmt: skip
def test_another_origin_is_refused_on_every_route(door_of: Doors, method: str, path: str, origin: str) -> None:
    http = door_of(**OPEN)
    assert status(http, method, path, HTTP_HOST="localhost", HTTP_ORIGIN=origin) == 403
    assert b"mine" in http.get(ONE).data


@pytest.mark.parametrize(
    ("scheme", "host", "origin"),
    [
        (HTTP, "localhost", "http://localhost"),
        (HTTP, "localhost:9090", "http://localhost:9090"),
        (HTTP, "LocalHost:9090", "http://localhost:9090"),
        (HTTP, "127.0.0.1:9090", "http://127.0.0.1:9090"),
        (HTTP, "[::1]:9090", "http://[::1]:9090"),
        (HTTP, "192.168.1.7", "http://192.168.1.7"),
        (HTTP, "localhost:80", "http://localhost"),
        (HTTP, "srb.example", "https://srb.example"),  # behind a proxy with TLS
        (HTTP, "srb.example:8443", "https://srb.example:8443"),
        (HTTPS, "srb.example", "https://srb.example"),
        (HTTPS, "srb.example:443", "https://srb.example"),
    ],
)
def test_the_own_page_gets_in(door_of: Doors, scheme: str, host: str, origin: str) -> None:
    http = door_of(allowed_hosts="srb.example, 192.168.1.7", host="0.0.0.0")
    for site in ({}, {"HTTP_SEC_FETCH_SITE": "same-origin"}):
        for method in ("GET", "POST", "DELETE"):
            assert status(http, method, scheme=scheme, HTTP_HOST=host, HTTP_ORIGIN=origin, **site) == 200


@pytest.mark.parametrize(
    ("scheme", "host", "origin"),
    [
        (HTTPS, "srb.example", "http://srb.example"),  # the same name, but anybody may answer without TLS
        (HTTP, "srb.example", "https://srb.example:8443"),
        (HTTP, "srb.example:8443", "https://srb.example"),
        (HTTP, "srb.example:80", "https://srb.example"),
        (HTTP, "srb.example:443", "http://srb.example"),
    ],
)
def test_another_port_or_a_lower_scheme_is_another_origin(door_of: Doors, scheme: str, host: str, origin: str) -> None:
    http = door_of(allowed_hosts="srb.example")
    assert status(http, scheme=scheme, HTTP_HOST=host, HTTP_ORIGIN=origin) == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "SAME-ORIGIN ", "same-origin, cross-site", "x"])
def test_a_fetch_from_another_site_is_refused_even_without_an_origin(door_of: Doors, site: str) -> None:
    assert status(door_of(**OPEN), HTTP_SEC_FETCH_SITE=site) == 403


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_the_address_bar_and_the_own_page_may_read(door_of: Doors, site: str) -> None:
    assert status(door_of(), HTTP_SEC_FETCH_SITE=site) == 200


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    "settings",
    [{}, OPEN, {"cors_origins": "http://friend.example"}, {"cors_origins": "localhost"}, {"api_prefix": "/llm"},
     {"api_key": KEY}],
)  # fmt: skip
def test_a_preflight_is_answered_without_cors_whatever_is_allowed(
    door_of: Doors, method: str, path: str, settings: dict[str, Any]
) -> None:
    http = door_of(**settings)
    prefix = settings.get("api_prefix", "")
    for spelling in (path, f"/{path}/", path.replace("/srb/", "//srb//")):
        asked = {
            "Origin": "http://friend.example",
            "Access-Control-Request-Method": method,
            "Access-Control-Request-Headers": "content-type",
            "Access-Control-Request-Private-Network": "true",
        }
        with http.open(
            "/", method="OPTIONS", headers=asked, environ_overrides={"PATH_INFO": prefix + spelling}
        ) as response:
            assert_closed(response)


def test_errors_of_the_door_and_behind_it_have_no_cors(door_of: Doors) -> None:
    http = door_of(api_key=KEY, **OPEN)
    own = {"HTTP_ORIGIN": "http://localhost", "HTTP_X_API_KEY": KEY}
    assert status(http, HTTP_ORIGIN="http://localhost") == 401
    assert status(http, **{**own, "HTTP_ORIGIN": "http://evil.example"}) == 403
    assert status(http, path=f"{ROOT}/nowhere", **own) == 404
    assert status(http, "PATCH", **own) == 405
    assert status(http, "POST", **{**own, "CONTENT_TYPE": "text/plain"}) == 415
    assert status(http, path=f"{ONE}?", **own) == 404


def test_other_routes_keep_their_cors(door_of: Doors) -> None:
    http = door_of(**OPEN)
    for path in ("/v1/models", "/v1/srb/storiesx", "/v1/srb/completions", "/nowhere"):
        answer = http.get(path, headers={"Origin": "http://friend.example"})
        assert answer.headers["Access-Control-Allow-Origin"] == "http://friend.example", path


# Bodies ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), [route for route in ROUTES if route[0] == "POST"])
@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
     "text/plain; application/json", "text/json", "application/jsonp", "application/json, text/plain", "json"],
)  # fmt: skip
def test_a_body_that_a_foreign_page_could_send_without_a_preflight_is_415(
    door_of: Doors, method: str, path: str, kind: str
) -> None:
    assert status(door_of(), method, path, CONTENT_TYPE=kind) == 415


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_is_taken_with_its_parameters(door_of: Doors, kind: str) -> None:
    assert status(door_of(), "POST", CONTENT_TYPE=kind) == 200


# Hosts ----------------------------------------------------------------------------------------------------------------

OWN_HOSTS = [
    "localhost",
    "localhost:9090",
    "srb.localhost",
    "127.0.0.1",
    "192.168.1.7:9090",
    "[fd00::7]:9090",
    "10.0.0.1.",
]
FOREIGN_HOSTS = [
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "evil",
    "1",
    "0x7f.1",
    "[::1",
    "a b",
    "",
]


@pytest.mark.parametrize("settings", [{"host": "0.0.0.0"}, {"host": "::"}, {"host": "0.0.0.0", "api_key": KEY}])
def test_names_that_can_be_pointed_here_are_refused_on_every_address(door_of: Doors, settings: dict[str, Any]) -> None:
    http = door_of(**settings)
    key = {"HTTP_X_API_KEY": KEY} if "api_key" in settings else {}
    assert {host for host in OWN_HOSTS if status(http, HTTP_HOST=host, **key) != 200} == set()
    assert {host for host in FOREIGN_HOSTS if status(http, HTTP_HOST=host, **key) != 403} == set()


def test_a_name_in_the_settings_is_known_and_a_star_knows_all(door_of: Doors) -> None:
    http = door_of(host="0.0.0.0", allowed_hosts="srb.example, other.example")
    assert [status(http, HTTP_HOST=host) for host in ("srb.example:8080", "OTHER.example", "evil.example")] == [
        200,
        200,
        403,
    ]
    assert status(door_of(allowed_hosts="*"), HTTP_HOST="evil.example") == 200


# Keys and paths -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_with_keys_every_route_needs_one(door_of: Doors, method: str, path: str) -> None:
    http = door_of(api_key=KEY)
    for headers in ({}, {"HTTP_X_API_KEY": "wrong"}, {"HTTP_ORIGIN": "http://localhost"}):
        assert status(http, method, path, **headers) == 401
    assert status(http, HTTP_AUTHORIZATION=f"Bearer {KEY}") == 200


@pytest.mark.parametrize(
    "path",
    [ONE, f"/{ONE}", f"{ONE}/", "/v1//srb///stories/abc", f"{ONE}//", f"{ROOT}/abc/export/"],
)
def test_every_spelling_of_a_path_leads_through_the_door(door_of: Doors, path: str) -> None:
    http = door_of(**OPEN)
    assert status(http, path=path) == 200
    assert status(http, path=path, HTTP_ORIGIN="http://evil.example") == 403


@pytest.mark.parametrize(
    "path",
    ["/v1/srb/./stories", "/v1/srb/x/../stories/abc", "/V1/srb/stories", "/v1/srb/Stories/abc", "/v1/srb/stories;x/abc",
     "/v1/srb/stories\0/abc", "v1/srb/stories/../models", f"{ROOT}/../stories/abc"],
)  # fmt: skip
def test_no_other_spelling_leads_to_a_story(door_of: Doors, path: str) -> None:
    http = door_of(**OPEN)
    with http.open("/", environ_overrides={"PATH_INFO": path, "HTTP_ORIGIN": "http://evil.example"}) as response:
        assert response.status_code in (403, 404)
        assert b"mine" not in response.data


def test_behind_a_prefix_the_door_is_the_same(door_of: Doors) -> None:
    http = door_of(api_prefix="/llm", **OPEN)
    assert status(http, path=f"/llm{ONE}") == 200
    assert status(http, path=f"/llm{ONE}", HTTP_ORIGIN="http://evil.example") == 403
    assert http.get(ONE).status_code == 404


def test_a_request_that_comes_past_the_door_is_refused(door_of: Doors) -> None:
    """Flask without Access stands for whatever may be put before it one day."""
    http = door_of()
    application: Any = http.application
    guard, application.access = application.access, lambda environ, start, behind: behind(environ, start)
    try:
        assert http.get(ONE).status_code == 403
    finally:
        application.access = guard


def test_saving_does_not_count_as_generating(door_of: Doors) -> None:
    http = door_of(rate_limit=1)
    for _ in range(5):
        assert status(http, "POST") == 200
    assert http.post("/v1/completions", json={"prompt": "x"}).status_code == 200
    assert http.post("/v1/completions", json={"prompt": "x"}).status_code == 429
    assert status(http, "POST") == 200
