"""Answer types of the story routes, for the description and the tests: the store writes the JSON itself."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from srb.web.answers import JSONObject, shapes


class ListedStory(TypedDict):
    """A story in the list; times are Unix milliseconds, `words` is what the page has counted, `owner` another person."""

    id: str
    title: str
    changed: int
    nodes: int
    seq: int
    words: NotRequired[int]
    deleted: NotRequired[int]
    owner: NotRequired[str]
    access: NotRequired[Literal["read", "write"]]


class StoryList(TypedDict):
    """The stories of the caller, `person`, or shared with it; `server`: the id of their file, `state`: may it be written."""

    stories: list[ListedStory]
    state: Literal["ok", "full", "read_only"]
    server: str
    person: NotRequired[str]


class StoryShares(TypedDict):
    """A story's owner, and the names that it is shared with."""

    id: str
    owner: str
    shares: dict[str, Literal["read", "write"]]


class StoryPlace(TypedDict):
    """A place that a search found: `begin` and `end` are UTF-16 units in the whole text of the node."""

    story: str
    title: str
    node: str
    begin: int
    end: int
    before: str
    words: str
    after: str


class StoryPlaces(TypedDict):
    """The places that a search found; `more` if there may be others."""

    results: list[StoryPlace]
    more: bool


class StoryEntry(TypedDict):
    """A value, and the time at which a client set it."""

    value: Any
    changed: int


class StoryRoom(TypedDict):
    """The room that a story has: the nodes and bytes that may still come, and the percentage that is taken."""

    used: int
    nodes: int
    bytes: int


class StoryState(TypedDict):
    """A story's sequence number after a change, and since when it is in the bin; `room` if it is nearly full.

    A story that another shares has `owner` and `access`.
    """

    id: str
    server: str
    seq: int
    deleted: NotRequired[int]
    owner: NotRequired[str]
    access: NotRequired[Literal["read", "write"]]
    room: NotRequired[StoryRoom]


class StoryParts(StoryState):
    """All of a story that has a sequence number above the one that was asked for."""

    changed: int
    meta: dict[str, StoryEntry]
    nodes: dict[str, JSONObject]
    runs: dict[str, JSONObject]
    marks: dict[str, dict[str, StoryEntry]]


class RefusedNode(TypedDict):
    """A node that was not stored: a word for programs, and a sentence."""

    node: str
    reason: Literal["parent_unknown", "parent_open", "beyond", "splits_pair", "conflict", "children", "full"]
    message: str


class StoryPosted(StoryState):
    """A post's outcome; with `since` in the post also all that the sender lacks."""

    refused: list[RefusedNode]
    meta: NotRequired[dict[str, StoryEntry]]
    nodes: NotRequired[dict[str, JSONObject]]
    runs: NotRequired[dict[str, JSONObject]]
    marks: NotRequired[dict[str, dict[str, StoryEntry]]]


class StoryImported(TypedDict):
    """The story that a file was merged into; `copied` if it became one of its own, since its id has other texts."""

    id: str
    seq: int
    nodes: int
    copied: bool


class StoredMedium(TypedDict):
    """A picture or sound of a story: its id, its type by its bytes, and its size."""

    id: str
    type: Literal["image/png", "image/jpeg", "image/gif", "image/bmp", "audio/wav", "audio/mpeg", "audio/flac"]
    bytes: int


shapes(__name__)
