"""Dialect: one family of request and response shapes, as the application registers it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from flask import Blueprint

from srb.web.replies import ErrorShape

DIALECTS = "srb_dialects"  # name in the application's extensions: those that it answers, by name


@dataclass(frozen=True)
class Dialect:
    """The routes of a dialect, as blueprints, and the shapes of its errors by the beginnings of paths: the longest counts.

    All other paths have errors of OpenAI's shape. `about` is a line, and `documents` an address, for /openapi.json.
    """

    about: str
    blueprints: tuple[Blueprint, ...]
    error_shapes: Mapping[str, ErrorShape] = field(default_factory=dict)
    documents: str = ""

    def __post_init__(self) -> None:
        """Raise TypeError or ValueError for a field that is none: dialects of other packages come unchecked."""
        if not isinstance(self.about, str) or not isinstance(self.documents, str):
            raise TypeError("about and documents should be text")
        blueprints = self.blueprints if isinstance(self.blueprints, tuple) else ()
        if not blueprints or not all(isinstance(each, Blueprint) for each in blueprints):
            raise TypeError("blueprints should be a tuple of Flask's blueprints, at least one")
        for beginning, shape in self.error_shapes.items():
            if not beginning.startswith("/") or not callable(shape):
                raise ValueError(f"error_shapes: {beginning!r} should begin with / and have a function")
