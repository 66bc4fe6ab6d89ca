"""The shapes of posts and of files, as pydantic models: types, ranges and the keys that belong together."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from srb.stories.limits import MAX_KEY, MAX_NUMBER

Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Key = Annotated[str, StringConstraints(min_length=1, max_length=MAX_KEY)]
Natural = Annotated[int, Field(ge=0, le=MAX_NUMBER)]

# The keys of a file that are not values of the story, and the key of a mark that is not a value of it.
NOT_META = {"format", "version", "id", "changed", "nodes", "runs", "marks", "media", "changes"}
NOT_MARK = "changed"


class Shape(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)


class EntryShape(Shape):
    """A value with the time, in milliseconds, at which a client set it."""

    value: Any
    changed: Natural


class EndShape(Shape):
    """The end of a model's branch."""

    model_config = ConfigDict(extra="allow")

    reason: str


class NodeShape(Shape):
    """A splice of its parent's text: the first `keep` units, then `text`, then the parent's text from `tail` on."""

    model_config = ConfigDict(extra="allow")

    text: str
    by: Literal["person", "model", "import"]
    parent: Id | None = None
    keep: Natural | None = None
    tail: Natural | None = None
    open: bool | None = None
    run: Id | None = None
    index: Natural | None = None
    made: Natural | None = None
    changed: Natural | None = None
    slot: float | None = None
    seed: float | None = None
    logprob: float | None = None
    end: EndShape | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.parent is None:
            if self.keep is not None or self.tail is not None:
                raise ValueError("has `keep` or `tail`, but no `parent`")
        elif self.keep is None:
            raise ValueError("has a `parent`, but no `keep`")
        elif self.tail is not None and self.tail < self.keep:
            raise ValueError(f"`tail` is {self.tail}, less than `keep`, which is {self.keep}")
        return self


class RunShape(Shape):
    """One request to the model, and the place in a node where its branches begin."""

    model_config = ConfigDict(extra="allow")

    node: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{0,64}$")] | None = None  # empty: before all texts
    at: Natural | None = None
    made: Natural | None = None
    seeds: list[Any] | None = None


class NoteShape(Shape):
    """The author's note, and how deep in the prompt it stands."""

    model_config = ConfigDict(extra="allow")

    text: str


class HeadShape(Shape):
    model_config = ConfigDict(extra="allow")

    node: Id
    at: Natural


class KnownMeta(BaseModel):
    """The story's own values that the server, or every page, must be able to read; any other key may have any value."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    title: str | None = None
    head: HeadShape | None = None
    memory: str | None = None
    note: NoteShape | None = None
    settings: dict[str, Any] | None = None
    words: Natural | None = None


class PostShape(Shape):
    """A part of a story, or all of it, and the last sequence number that the sender knows."""

    meta: dict[Key, EntryShape] = {}
    nodes: dict[Id, NodeShape] = {}
    runs: dict[Id, RunShape] = {}
    marks: dict[Id, dict[Key, EntryShape]] = {}
    since: Natural | None = None
    server: Id | None = None


class ChangesShape(Shape):
    """The times of a file's values, which its flat form lacks."""

    meta: dict[Key, Natural] = {}
    marks: dict[Id, dict[Key, Natural]] = {}


class MediumShape(Shape):
    """A picture or sound as base64; its type is told by its bytes, whatever `type` says."""

    model_config = ConfigDict(extra="allow")

    data: Annotated[str, Field(json_schema_extra={"contentEncoding": "base64"})]


class FileShape(BaseModel):
    """A story as a file; every further key is a value of the story."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")

    format: Literal["srb-story"]
    version: Literal[1]
    id: Id
    nodes: dict[Id, NodeShape]
    runs: dict[Id, RunShape] = {}
    marks: dict[Id, dict[Key, Any]] = {}
    media: dict[Id, MediumShape] = {}
    changed: Natural = 0
    changes: ChangesShape = ChangesShape()
