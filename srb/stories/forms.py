"""The shapes of posts and of files, as pydantic models: types, ranges and the keys that belong together."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from srb.stories.limits import MAX_KEY, MAX_NUMBER

Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Key = Annotated[str, StringConstraints(min_length=1, max_length=MAX_KEY)]
Natural = Annotated[int, Field(ge=0, le=MAX_NUMBER)]

# The keys of a file that are not values of the story, and the key of a mark that is not a value of it.
NOT_META = {"format", "version", "id", "changed", "nodes", "runs", "marks", "media", "changes"}
NOT_MARK = "changed"


class StrictModel(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)


class OpenModel(StrictModel):
    """A model that may have further keys."""

    model_config = ConfigDict(extra="allow")


class EntryShape(StrictModel):
    """A value with the time, in milliseconds, at which a client set it."""

    value: Any
    changed: Natural


class EndShape(OpenModel):
    """The end of a model's branch."""

    reason: str


class NodeShape(OpenModel):
    """A splice of its parent's text: the first `keep` units, then `text`, then the parent's text from `tail` on."""

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


class RunShape(OpenModel):
    """One request to the model, and the place in a node where its branches begin."""

    node: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{0,64}$")] | None = None  # empty: before all texts
    at: Natural | None = None
    made: Natural | None = None
    seeds: list[Any] | None = None


class NoteShape(OpenModel):
    """The author's note, and how deep in the prompt it stands."""

    text: str


class HeadShape(OpenModel):
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
    opening: str | None = None


class PostShape(StrictModel):
    """A part of a story, or all of it, and the last sequence number that the sender knows."""

    meta: dict[Key, EntryShape] = Field(
        {},
        description="the story's values: `title`, `head`, `memory`, `note`, `settings`, `settings.n` and the like, `words`, "
        "and any other key. The value with the latest `changed` stays; null takes a value away",
        json_schema_extra={"x-srb-form": 'object of `{"value", "changed"}` by key'},
    )
    nodes: dict[Id, NodeShape] = Field(
        {}, description="splices of texts", json_schema_extra={"x-srb-form": "object of nodes by id"}
    )
    runs: dict[Id, RunShape] = Field(
        {},
        description="what was asked of the model: `node` and `at`, where its branches begin, `made`, and any other keys. Of "
        "two versions the one with the later `made` stays",
        json_schema_extra={"x-srb-form": "object of runs by id"},
    )
    marks: dict[Id, dict[Key, EntryShape]] = Field(
        {},
        description="values of nodes, such as `star`, `name` and `note`; likewise. No mark is called `changed`",
        json_schema_extra={"x-srb-form": 'object of objects of `{"value", "changed"}`, by node and key'},
    )
    since: Natural | None = Field(
        None,
        description="what the sender knows: then the answer also has `meta`, `nodes`, `runs` and `marks` with all that it "
        "lacks, and with all that is stored otherwise than it was posted",
        json_schema_extra={"x-srb-form": "number"},
    )
    server: Id | None = Field(
        None,
        description="the file of stories that `since` is of, as answers name it",
        json_schema_extra={"x-srb-form": "text"},
    )


class ChangesShape(StrictModel):
    """The times of a file's values, which its flat form lacks."""

    meta: dict[Key, Natural] = {}
    marks: dict[Id, dict[Key, Natural]] = {}


class MediumShape(OpenModel):
    """A picture or sound as base64; its type is told by its bytes, whatever `type` says."""

    data: Annotated[str, Field(json_schema_extra={"contentEncoding": "base64"})]


class ShareShape(StrictModel):
    """A name, and whether it may read a story, write it, or neither."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    access: Literal["read", "write", "none"] = "read"


class FileShape(OpenModel):
    """A story as a file; every further key is a value of the story."""

    format: Literal["srb-story"]
    version: Literal[1]
    id: Id
    nodes: dict[Id, NodeShape]
    runs: dict[Id, RunShape] = {}
    marks: dict[Id, dict[Key, Any]] = {}
    media: dict[Id, MediumShape] = {}
    changed: Natural = 0
    changes: ChangesShape = ChangesShape()
