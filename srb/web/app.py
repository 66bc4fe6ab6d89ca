"""The Flask application: `create_app` combines access, routes, limits and JSON errors.

Creating it connects to nothing; the worker does after its fork, or at its first request.
"""

import logging
import os
import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from wsgiref.types import StartResponse, WSGIEnvironment

import gevent
from flask import Flask, Response, current_app, g, request
from werkzeug.exceptions import HTTPException
from werkzeug.wsgi import ClosingIterator

from srb import logs
from srb.config.held import held_settings
from srb.config.settings import SERVER_ID_VARIABLE, Settings
from srb.errors import BodyTooLarge, InvalidRequest, MethodNotAllowed, NotFound, SRBError
from srb.traces import open_provider
from srb.web.access import Access
from srb.web.bodies.completion import BODY_SIZE, REPLACED
from srb.web.bodies.unread import ALSO_KNOWN, BODY_MODEL, UNREAD
from srb.web.calls.calls import CALL
from srb.web.calls.engine_client import EngineClient
from srb.web.chat.families import families
from srb.web.chat.template import check_configured, template_for
from srb.web.context import Web, web
from srb.web.dialect import DIALECTS
from srb.web.foreign_pages import refuse_page
from srb.web.loop.memory import BodyBudget, Trimmer, keep_large_blocks_apart
from srb.web.loop.yielding import RoundRobin
from srb.web.metrics import ROUTE, Metrics
from srb.web.models.choice import ModelChoice
from srb.web.models.client import ModelsClient
from srb.web.openapi import body_models, operation_of
from srb.web.replies import ErrorReplies
from srb.web.request_log import BEGAN, log_response
from srb.web.routes import Route, error_shapes, register

if TYPE_CHECKING:
    from srb.web.http_spans import HttpSpans

log = logging.getLogger("srb.web")

MAX_IGNORED_NAME = 64  # characters

_BY_STATUS: dict[int | None, SRBError] = {404: NotFound("File Not Found"), 405: MethodNotAllowed("Method Not Allowed")}


class Application(Flask):
    """Flask behind `access`, which checks every request before routing."""

    url_rule_class = Route
    access: Access
    error_reply: ErrorReplies
    metrics: Metrics
    spans: "HttpSpans | None" = None

    def rotate_clients(self) -> None:
        """Let calls that are there at the same time begin in a rotation of their clients, on this thread's loop."""
        self.access.round_robin = RoundRobin()

    def build_bodies(self) -> None:
        """Build the checks of all bodies, 10 to 20 ms of CPU time for each; let calls go first in between."""
        for model in body_models(self):
            model.model_rebuild()
            gevent.sleep(0)

    def wsgi_app(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        environ[BEGAN] = time.monotonic()
        spans = self.spans if environ["REQUEST_METHOD"] == "POST" else None  # others are quick, and very many
        if spans is not None:
            spans.begin(environ)

        def counted(status: str, *rest: Any) -> Any:
            self.metrics.count(environ, status)
            if spans is not None:
                spans.answered(environ, status)
            request_id = log_response(environ, status)
            own = [("X-Request-Id", request_id), ("Request-Id", request_id)]  # OpenAI's and Anthropic's names
            headers = rest[0] if environ["REQUEST_METHOD"] == "OPTIONS" else [*rest[0], *own]
            return start_response(status, headers, *rest[1:])

        try:
            answer = self.access(environ, counted, super().wsgi_app)
        except BaseException:  # start_response failed, so the WSGI server has no stream to close
            if (call := environ.get(CALL)) is not None:
                call.close()
            if spans is not None:
                spans.end(environ)
            raise
        return answer if spans is None else ClosingIterator(answer, partial(spans.end, environ))


def _open_spans(settings: Settings) -> "HttpSpans | None":
    provider = open_provider(settings)
    if provider is None:
        return None
    from srb.web.http_spans import HttpSpans  # which imports OpenTelemetry

    return HttpSpans(provider)


def _own_engine(settings: Settings) -> EngineClient | ModelChoice:
    server_id = os.environ.get(SERVER_ID_VARIABLE, "")
    if settings.models:
        return ModelChoice(settings, ModelsClient(settings, server_id))
    return EngineClient(settings, server_id)


def create_app(settings: Settings | None = None, client: EngineClient | None = None) -> Application:
    """Return the application of one worker.

    Without `settings`, take those that the arbiter holds for its workers, or load them from the file and the environment,
    and set up the logging of the process.
    """
    if settings is None:
        settings = held_settings() or Settings.load()
        logs.configure(settings)
    check_configured(settings)
    families()  # those of other packages are checked now
    app = Application(__name__, static_folder=None)
    app.config["READ_TIMEOUT"] = settings.client_timeout
    app.config["BODY_BUDGET"] = BodyBudget(settings.max_bodies_bytes)
    keep_large_blocks_apart()
    trimmer = Trimmer()
    app.teardown_request(lambda _: trimmer.note(g.get(BODY_SIZE, 0)))
    shared = app.extensions["srb"] = Web(settings, client or _own_engine(settings))
    app.metrics = shared.metrics
    app.spans = _open_spans(settings)
    app.before_request(_note_route)
    app.before_request(_refuse_foreign_page)
    app.before_request(_limit_body)
    app.after_request(_tell_replaced)
    app.after_request(_tell_ignored)
    if (choice := shared.choice) is not None:
        app.teardown_request(lambda _: choice.release(shared.calls))
    dialects = app.extensions[DIALECTS] = register(app, settings)
    app.error_reply = ErrorReplies(error_shapes(dialects))
    app.access = Access(settings, app.error_reply, shared.folder)
    app.register_error_handler(SRBError, _error_reply)
    app.register_error_handler(HTTPException, _http_error_reply)
    app.register_error_handler(Exception, _unexpected_error_reply)
    return app


def _note_route() -> None:
    if request.url_rule is not None:
        request.environ[ROUTE] = request.url_rule.rule
        setattr(g, BODY_MODEL, operation_of(current_app.view_functions[request.url_rule.endpoint]).body)


def _refuse_foreign_page() -> None:
    """Refuse a route that is not declared as one for pages of other origins."""
    rule = request.url_rule
    if rule is not None and not operation_of(current_app.view_functions[rule.endpoint]).foreign:
        refuse_page()


def _limit_body() -> None:
    request.max_content_length = web().server.max_body_bytes + 1  # a body of this length is refused, see read_bytes


def _tell_replaced(response: Response) -> Response:
    if count := g.get(REPLACED):
        response.headers["X-Replaced-Characters"] = str(count)
    return response


def _tell_ignored(response: Response) -> Response:
    """Name the body's fields that have no effect, in a header and at debug level in the log."""
    is_answered = response.status_code < 400  # so the model is known, and none is loaded for this
    given, also_known = g.get(UNREAD, {}), g.get(ALSO_KNOWN, ())
    names = [
        name
        for name, owner in given.items()
        if name not in also_known and not (owner and is_answered and _is_read(owner, name))
    ]
    if names:
        said = ", ".join(quote(name[:MAX_IGNORED_NAME], safe="[]", errors="replace") for name in names)
        response.headers["X-SRB-Ignored"] = said
        log.debug("%s %s: fields without effect: %s", request.method, request.path, said)
    return response


def _is_read(owner: str, name: str) -> bool:
    """Whether the template of the request's model reads a field of messages or tools that no dialect knows."""
    try:
        template = template_for(web().settings, web().client.check_ready(), with_tools=owner == "tools")
    except SRBError:
        return False
    return template.reads(owner, name.rpartition(".")[2])


def _error_reply(error: SRBError) -> Response:
    assert isinstance(current_app, Application)
    return current_app.error_reply(error, request.path)


def _http_error_reply(error: HTTPException) -> Any:
    """Return Werkzeug's errors as JSON errors; headers for the client (Allow) are kept."""
    if error.response is not None or error.code is None or error.code < 400:
        return error
    if error.code == 413:
        limit = web().server.max_body_bytes
        return _error_reply(BodyTooLarge(f"The body is larger than {limit} bytes"))
    response = _error_reply(_BY_STATUS.get(error.code) or InvalidRequest(error.description or error.name))
    if error.code == 405 and (allowed := getattr(error, "valid_methods", None)):
        response.headers["Allow"] = ", ".join(sorted(allowed))
    return response


def _unexpected_error_reply(error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.path, exc_info=error)
    return _error_reply(SRBError("Internal error"))
