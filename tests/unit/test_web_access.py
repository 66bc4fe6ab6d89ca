"""Who may use the server: keys, host names, other pages' origins, prefix and static files. Nothing leads around."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.errors import ConfigError
from srb.web.access import Access
from srb.web.app import create_app
from srb.web.foreign_pages import is_local_bind, is_loopback
from srb.web.replies import ErrorReplies
from tests.scripted import ScriptedClient

KEY = "a secret that only we know"


def client(**settings: Any) -> FlaskClient:
    chosen = Settings(**settings)
    return create_app(chosen, ScriptedClient(chosen)).test_client()


def status(http: FlaskClient, path: str, method: str = "GET", **headers: str) -> int:
    """Ask for a path exactly as it stands here, where the test client's own reading of it would change it."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with http.open("/", method=method, headers=named, environ_overrides={"PATH_INFO": path}) as response:
        return response.status_code


# Keys -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def locked() -> FlaskClient:
    return client(api_key=f"another one, {KEY}")


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": f"Bearer {KEY}"},
        {"Authorization": f"bearer  {KEY} "},
        {"X_Api_Key": KEY},
        {"Authorization": "Bearer wrong", "X_Api_Key": "another one"},
    ],
)
def test_any_of_the_keys_opens_in_either_header(locked: FlaskClient, headers: dict[str, str]) -> None:
    assert status(locked, "/v1/models", **headers) == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer"},
        {"Authorization": KEY},
        {"Authorization": f"Basic {KEY}"},
        {"Authorization": f"Bearer {KEY} x"},
        {"Authorization": f"Bearer {KEY[:-1]}"},
        {"Authorization": f"Bearer another one, {KEY}"},
        {"Authorization": "Bearer \xff\xfe"},
        {"X_Api_Key": ""},
        {"X_Api_Key": "x" * 5000},
        {"Api_Key": KEY},
        {"Cookie": f"key={KEY}"},
        {"Host": "evil.example"},
        {"X_Forwarded_For": "127.0.0.1", "X_Forwarded_Host": "localhost", "Forwarded": "for=127.0.0.1"},
        {"X_Original_URL": "/health", "X_Rewrite_URL": "/health"},
        {"X_HTTP_Method_Override": "OPTIONS"},
        {"Origin": "null"},
    ],
)
def test_anything_else_than_a_key_in_its_place_is_401(locked: FlaskClient, headers: dict[str, str]) -> None:
    assert status(locked, "/v1/models", **headers) == 401


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "BREW"])
@pytest.mark.parametrize(
    "path",
    [
        "/v1/models", "//v1//models", "/v1/models/", "/v1/./models", "/health/../v1/models", "/%2e/v1/models", "v1/models",
        "/V1/models", "/v1/completions", "/metrics", "/nowhere", "/healthy", "/health/x", "/health\0", "/health ", "*",
        "/health;x=/v1/models", "/health%00", "/\xe2\x80\xa6",
    ],
)  # fmt: skip
def test_no_path_and_no_method_leads_around_the_key(locked: FlaskClient, method: str, path: str) -> None:
    assert status(locked, path, method) == 401


@pytest.mark.parametrize("path", ["/", "/health", "/v1/health", "//health/"])
def test_health_and_the_page_are_public_but_only_to_read(locked: FlaskClient, path: str) -> None:
    assert status(locked, path) == 200
    assert status(locked, path, "HEAD") == 200
    assert status(locked, path, "POST") == 401


def test_a_refusal_is_openais(locked: FlaskClient) -> None:
    response = locked.post("/v1/completions", json={"prompt": "x"})
    assert response.status_code == 401
    said = {"code": "invalid_api_key", "message": "Invalid API Key", "type": "authentication_error", "param": None}
    assert response.json == {"error": said}


def test_a_refusal_is_llama_servers(locked: FlaskClient) -> None:
    response = locked.post("/completion", json={"prompt": "x"})
    assert response.status_code == 401
    assert response.json == {"error": {"code": 401, "message": "Invalid API Key", "type": "authentication_error"}}
    assert response.headers["WWW-Authenticate"] == "Bearer"


def test_a_key_in_the_query_or_in_the_body_does_not_count(locked: FlaskClient) -> None:
    assert locked.get("/v1/models", query_string={"api_key": KEY, "key": KEY}).status_code == 401
    assert locked.post("/v1/completions", json={"prompt": "x", "api_key": KEY}).status_code == 401


def test_keys_also_come_from_a_file_and_may_be_of_any_alphabet(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# for the phone\nkey-1\n\n  ключ  \n")
    http = client(api_key="key-0", api_key_file=str(file))
    for key in ("key-0", "key-1", "ключ"):
        wire = f"Bearer {key}".encode().decode("latin-1")
        response = http.get("/v1/models", environ_overrides={"HTTP_AUTHORIZATION": wire})
        assert response.status_code == 200, key
    assert status(http, "/v1/models", Authorization="Bearer # for the phone") == 401


@pytest.mark.parametrize("settings", [{"api_key": " , "}, {"api_key_file": "{}/empty"}, {"api_key_file": "{}/nowhere"}])
def test_key_settings_without_a_usable_key_are_refused(tmp_path: Path, settings: dict[str, str]) -> None:
    (tmp_path / "empty").write_text("# none yet\n")
    given = {name: value.format(tmp_path) for name, value in settings.items()}
    with pytest.raises(ConfigError, match="api_key"):
        Access(Settings(**given), ErrorReplies({}))  # type: ignore[arg-type]


def test_a_key_is_not_shown_with_the_settings() -> None:
    assert KEY not in repr(Settings(api_key=KEY))
    with pytest.raises(ConfigError) as caught:
        Settings.load({"api_key": 5})
    assert "api_key" in caught.value.message
    assert "got" not in caught.value.message


# Hosts ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:9090", "LOCALHOST.", "srb.localhost", "127.0.0.1:1", "127.1.2.3", "[::1]:9090", "[::1]"],
)
def test_a_local_server_answers_to_local_names(host: str) -> None:
    assert status(client(), "/v1/models", Host=host) == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9090", "localhost.evil.example", "127.0.0.1.evil.example", "localhost@evil",
             "8.8.8.8", "0.0.0.0", "evil, localhost", "localhost, evil", "[::2]", "[::1].evil", "a" * 5000, "local host"]
)  # fmt: skip
@pytest.mark.parametrize("path", ["/v1/models", "/", "/health", "/nowhere"])
def test_a_local_server_answers_to_no_other_name(host: str, path: str) -> None:
    assert status(client(), path, Host=host) == 403


def test_a_refused_name_is_told_where_names_are_allowed() -> None:
    error = client().get("/v1/models", headers={"Host": "srb.example"}).json["error"]
    assert error["type"] == "permission_error"
    assert "allowed_hosts" in error["message"]


def test_other_names_can_be_allowed_for_proxies() -> None:
    http = client(allowed_hosts="srb.example, 192.168.1.7")
    for host in ("srb.example", "SRB.example:443", "192.168.1.7:9090", "localhost"):
        assert status(http, "/v1/models", Host=host) == 200, host
    assert status(http, "/v1/models", Host="other.example") == 403


def test_a_server_for_the_network_and_one_with_keys_answer_to_any_name() -> None:
    assert status(client(host="0.0.0.0"), "/v1/models", Host="my-pc:9090") == 200
    assert status(client(host="127.0.0.1,192.168.1.7"), "/v1/models", Host="my-pc") == 200
    assert status(client(api_key=KEY), "/v1/models", Host="my-pc", X_Api_Key=KEY) == 200
    assert status(client(allowed_hosts="*"), "/v1/models", Host="my-pc") == 200
    assert status(client(host="0.0.0.0", allowed_hosts="my-pc"), "/v1/models", Host="evil") == 403


@pytest.mark.parametrize(
    ("host", "local"),
    [
        *((host, True) for host in ("127.0.0.1", "::1", "[::1]", "localhost", "/run/srb.sock")),
        *((host, False) for host in ("0.0.0.0", "::", "192.168.1.7", "my-pc", "")),
    ],
)
def test_what_is_local(host: str, local: bool) -> None:
    assert is_local_bind(host) is local
    assert is_loopback(host) is (local and not host.endswith(".sock"))


@pytest.mark.parametrize("host", ["evil.sock", "evil.sock:9090", "EVIL.SOCK.", "/run/srb.sock"])
def test_a_host_that_is_named_as_a_socket_is_not_ours(host: str) -> None:
    assert status(client(), "/v1/models", Host=host) == 403
    assert status(client(host="/run/srb.sock"), "/v1/models", Host=host) == 403
    assert status(client(host="0.0.0.0"), "/v1/srb/stories", Host=host) == 403
    assert allowed_origin(client(cors_origins="localhost"), f"http://{host}") is None


def test_options_is_answered_without_a_key_and_tells_nothing_of_what_the_server_has(locked: FlaskClient) -> None:
    asked = {"Origin": "http://page.example", "Access-Control-Request-Method": "POST"}
    answers = set()
    for path in ("/v1/models", "/v1/completions", "/nowhere", "/", "/slots/0", "/health/../v1/models", "/%2e", "*"):
        with locked.open("/", method="OPTIONS", headers=asked, environ_overrides={"PATH_INFO": path}) as response:
            assert response.status_code == 200
            assert response.data == b""
            answers.add(tuple(response.headers))
    assert len(answers) == 1


# Other pages' origins -------------------------------------------------------------------------------------------------


def allowed_origin(http: FlaskClient, origin: str | None) -> str | None:
    response = http.get("/health", headers={"Origin": origin} if origin else {})
    return response.headers.get("Access-Control-Allow-Origin")


def test_any_page_may_use_the_server_unless_it_says_otherwise() -> None:
    http = client()
    for origin in ("https://example.org", "null", "http://localhost:3000"):
        assert allowed_origin(http, origin) == origin
    assert allowed_origin(http, None) == "*"


def test_origins_can_be_listed() -> None:
    http = client(cors_origins="https://a.example, localhost")
    for origin in ("https://a.example", "http://localhost:3000", "http://127.0.0.1", "http://[::1]:8"):
        assert allowed_origin(http, origin) == origin
    for other in ("https://b.example", "null", "http://localhost.evil", "http://[", "https://a.example.evil", None):
        assert allowed_origin(http, other) is None
    assert http.get("/health").headers["Vary"] == "Origin"


def test_a_refusal_can_be_read_by_the_page_that_asked() -> None:
    headers = {"Origin": "null"}
    for http, path in ((client(api_key=KEY), "/v1/models"), (client(api_prefix="/llm"), "/v1/models")):
        response = http.get(path, headers=headers)
        assert response.status_code in (401, 404)
        assert response.headers.getlist("Access-Control-Allow-Origin") == ["null"]
    response = client().get("/health", headers={**headers, "Host": "evil.example"})
    assert response.headers["Access-Control-Allow-Origin"] == "null"


def test_preflight_needs_no_key_and_gets_what_the_settings_allow() -> None:
    http = client(api_key=KEY)
    response = http.options("/v1/completions", headers={"Origin": "null", "Access-Control-Request-Headers": "x-other"})
    assert response.status_code == 200
    assert response.headers["Access-Control-Allow-Methods"] == "GET, POST, PATCH, DELETE, OPTIONS"
    assert response.headers["Access-Control-Allow-Headers"] == "x-other"
    assert response.headers["Access-Control-Allow-Credentials"] == "true"
    assert "Access-Control-Allow-Private-Network" not in response.headers


# Prefix ---------------------------------------------------------------------------------------------------------------


def test_a_prefix_is_before_every_route_and_nothing_is_without_it() -> None:
    http = client(api_prefix="/a/llm")
    for path in ("/a/llm/health", "//a//llm//v1/models/", "/a/llm/"):
        assert status(http, path) == 200, path
    for path in ("/health", "/", "/a", "/a/llmx/health", "/a/llmhealth", "/a/llm/a/llm/health"):
        assert status(http, path) == 404, path


def test_behind_a_prefix_the_same_is_public() -> None:
    http = client(api_prefix="/llm", api_key=KEY)
    assert status(http, "/llm/health") == 200
    for path in ("/llm/v1/models", "/health", "/", "/llmhealth"):
        assert status(http, path) == 401, path
    assert status(http, "/llm/v1/models", X_Api_Key=KEY) == 200


@pytest.mark.parametrize("prefix", ["llm", "/llm/", "/", "/l m"])
def test_a_prefix_that_could_not_work_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigError, match="api_prefix"):
        Settings.load({"api_prefix": prefix})


# Static files ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("secret")
    public = tmp_path / "public"
    (public / "deep").mkdir(parents=True)
    (public / "index.html").write_text("<h1>mine</h1>")
    (public / "app.js").write_text("let x")
    (public / "deep" / "index.html").write_text("deep")
    (public / "naïve.txt").write_text("utf-8")
    (public / "out").symlink_to(tmp_path / "secret.txt")
    (public / "up").symlink_to(tmp_path)
    (public / "within").symlink_to(public / "app.js")
    (public / "loop").symlink_to(public / "loop")
    return public


def get(http: FlaskClient, path: str, **headers: str) -> Any:
    return http.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()}, buffered=True)


def test_a_folder_is_served_at_the_root_before_our_page(folder: Path) -> None:
    http = client(static_path=str(folder))
    assert get(http, "/").text == "<h1>mine</h1>"
    assert get(http, "/app.js").text == "let x"
    assert get(http, "/app.js").mimetype == "text/javascript"
    assert get(http, "/deep/").text == "deep"
    assert get(http, "/within").text == "let x"
    assert get(http, "/na%C3%AFve.txt").text == "utf-8"
    assert get(http, "/health").json["status"] == "ok"


def test_a_file_is_sent_in_parts_and_once(folder: Path) -> None:
    http = client(static_path=str(folder))
    part = get(http, "/app.js", Range="bytes=0-2")
    assert (part.status_code, part.text) == (206, "let")
    assert get(http, "/app.js", Range="bytes=99-").status_code == 416
    etag = get(http, "/app.js").headers["ETag"]
    assert get(http, "/app.js", If_None_Match=etag).status_code == 304


@pytest.mark.parametrize(
    "path",
    ["/../secret.txt", "/deep/../../secret.txt", "/..", "/out", "/up/secret.txt", "/loop", "/..\\secret.txt", "/deep",
     "/secret.txt", "/app.js/", "/\0", "/app.js\0", "/\xff", "/" + "x" * 5000, "//etc/passwd", "/./../secret.txt"],
)  # fmt: skip
def test_a_path_outside_the_folder_is_404(folder: Path, path: str) -> None:
    assert status(client(static_path=str(folder)), path) == 404


def test_files_are_public_and_can_only_be_read(folder: Path) -> None:
    http = client(static_path=str(folder), api_key=KEY)
    assert status(http, "/app.js") == 200
    assert status(http, "/app.js", "POST") == 401
    assert status(http, "/app.jsx") == 401
    assert status(http, "/out") == 401


def test_a_folder_that_is_not_there_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a folder"):
        client(static_path=str(tmp_path / "nowhere"))
