"""The routes of the server: those of the dialects that the settings choose, the page's, and the operators'."""

import re
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint

from flask import Flask
from werkzeug.routing import Map, Rule

from srb.config.settings import Settings
from srb.extensions import broken, chosen_dialects, load
from srb.web import page_files
from srb.web.access import PAGE, PUBLIC
from srb.web.dialect import Dialect
from srb.web.ops import models
from srb.web.ops import routes as ops
from srb.web.replies import ErrorShape
from srb.web.stories import origin_check
from srb.web.stories import routes as stories

_OPERATORS = (ops.routes, models.routes)
# Where the checks before a route are others, whether it is there or not: no key, or only the own page.
_RESERVED = (*sorted(PUBLIC), f"{PAGE}x", origin_check.ROOT, f"{origin_check.ROOT}/x")
_PAGE = (page_files.routes, stories.routes)  # only with the dialect `srb`, which the page asks


class Route(Rule):
    """A rule whose two functions that make an address are compiled when one is asked for, as no route of SRB's does.

    To compile them for each rule takes Werkzeug 17 ms of a worker's start.
    """

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        compiled = super()._compile_builder
        return lambda rule, **values: compiled(append_unknown)(rule, **values)


def register(app: Flask, settings: Settings) -> Mapping[str, Dialect]:
    """Register all routes; return the dialects by name. Raise ConfigError if another package's dialect is broken."""
    dialects: dict[str, Dialect] = {}
    for blueprint in (*_OPERATORS, *(_PAGE if settings.has_dialect("srb") else ())):
        app.register_blueprint(blueprint)
    for point in chosen_dialects(settings.dialects):
        dialect = load(point, Dialect)
        if point.dist is None:
            for blueprint in dialect.blueprints:
                if app.blueprints.get(blueprint.name) is not blueprint:  # two dialects may have routes in common
                    app.register_blueprint(blueprint)
        else:
            _register_foreign(app, point, dialect, error_shapes(dialects))
        dialects[point.name] = dialect
    return dialects


def error_shapes(dialects: Mapping[str, Dialect]) -> dict[str, ErrorShape]:
    """Return the shapes of all dialects' errors, by the beginnings of their paths."""
    return {beginning: shape for dialect in dialects.values() for beginning, shape in dialect.error_shapes.items()}


def _register_foreign(app: Flask, point: EntryPoint, dialect: Dialect, shapes: Mapping[str, ErrorShape]) -> None:
    """Register another package's dialect, unless it takes a path from what is there."""
    rules = list(app.url_map.iter_rules())
    taken = {each for rule in rules for each in _requests(rule)}
    known = set(map(id, rules))
    try:
        for blueprint in dialect.blueprints:
            app.register_blueprint(blueprint)
    except Exception as error:  # Flask's, and those of functions that the package records
        raise broken(point, f"cannot be registered: {error}") from error
    added = [rule for rule in app.url_map.iter_rules() if id(rule) not in known]
    if both := taken & {each for rule in added for each in _requests(rule)}:
        raise broken(point, f"has a route that is there already: {' '.join(min(both))}")
    found = Map([rule.empty() for rule in added], converters=app.url_map.converters).bind("")
    methods = {path: set(found.allowed_methods(path)) for path in _RESERVED}
    if reserved := [path for path, those in methods.items() if those & {"GET"} or (those and path not in PUBLIC)]:
        raise broken(point, f"has a route that takes {reserved[0]}, which has rules of its own for keys and pages")
    for beginning in dialect.error_shapes:
        others = [rule.rule for rule in rules if rule.rule.startswith(beginning)]
        if beginning in shapes or others:
            raise broken(
                point, f"has a shape for errors below {beginning}, where other routes are: {', '.join(others)}"
            )


def _requests(rule: Rule) -> set[tuple[str, str]]:
    """Return the methods and the path of a route, whatever its variables are called."""
    path = re.sub(r"<[^>]*>", "<…>", rule.rule)
    return {(method, path) for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}}
