"""References within a JSON schema: what they name, and which schemas speak of one value together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import combinations
from typing import Any
from urllib.parse import unquote

UNIONS = ("anyOf", "oneOf", "allOf")
IN_PLACE = (*UNIONS, "if", "then", "else", "not")  # schemas of the same value
MAX_PAIRS = 2_000  # of schemas that are compared; 64 KiB of schema may have millions, and these take 30 ms
_OF_CASES = ("dependentSchemas", "dependencies")
_TOGETHER = frozenset({*UNIONS, "then", "else", *_OF_CASES, "$ref"})
_OF_PROPERTIES = frozenset({"properties", "patternProperties", "additionalProperties", "unevaluatedProperties"})
_OF_ITEMS = frozenset({"items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"})
# With one of these, a schema may ask of a value what a closed one beside it does not allow.
_ASKING = frozenset({
    "patternProperties", "propertyNames", "minProperties", "dependentRequired", *_OF_ITEMS, "enum", "const",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
})  # fmt: skip
_SPEAKING = _ASKING | _TOGETHER | _OF_PROPERTIES | {"required", "maxProperties"}

Pair = tuple[dict[str, Any], dict[str, Any]]


class References:
    """The references of a whole schema. `has_ids`: they may be relative to addresses within, which are not followed.

    `heads`: the keywords of the whole below which references lead.
    """

    def __init__(self, whole: dict[str, Any]) -> None:
        self.has_ids = False
        self.heads: set[str] = set()
        self._whole = whole
        self._anchors: dict[str, Any] = {}
        self._known: dict[int, _Speakers] = {}  # by the identities of schemas, which live as long as the whole
        self._shared: set[int] | None = None  # None: all
        meeting: list[dict[str, Any]] = []
        self._walk(whole, meeting)
        self._meet(meeting)

    def target(self, reference: str) -> Any:
        """Return what a reference within the schema names; None if there is nothing."""
        if not reference.startswith("#"):
            return None
        fragment = unquote(reference[1:])
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(fragment)
        found: Any = self._whole
        for part in fragment.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list):
                found = found[int(name)] if name.isdecimal() and int(name) < len(found) else None
            else:
                found = found.get(name) if isinstance(found, dict) else None
        return found

    def is_shared(self, schema: dict[str, Any]) -> bool:
        """Whether another schema says anything of a value of which this one speaks, wherever something refers to it."""
        return self._shared is None or id(schema) in self._shared

    def _walk(self, schema: Any, meeting: list[dict[str, Any]]) -> None:
        if isinstance(schema, list):
            for each in schema:
                self._walk(each, meeting)
        if not isinstance(schema, dict):
            return
        self.has_ids = self.has_ids or isinstance(schema.get("$id"), str)
        for name in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(name), str):
                self._anchors[schema[name]] = schema
        if isinstance(reference := schema.get("$ref"), str):
            self.heads.add(reference.removeprefix("#/").partition("/")[0])
        if not schema.keys().isdisjoint({*_TOGETHER, "patternProperties", "contains"}):
            meeting.append(schema)
        for value in schema.values():
            self._walk(value, meeting)

    def _meet(self, meeting: list[dict[str, Any]]) -> None:
        """Find what is shared: all pairs of schemas that speak of one value, and so of the values within it."""
        shared: set[int] = set()
        seen: set[tuple[int, int]] = set()
        waiting: list[Iterator[Pair]] = [((each, each) for each in meeting)]
        count = 0
        while waiting:
            if (pair := next(waiting[-1], None)) is None:
                waiting.pop()
                continue
            count += 1
            if count > MAX_PAIRS:
                return
            one, other = map(self._speakers, pair)
            if (id(one), id(other)) in seen:
                continue
            seen |= {(id(one), id(other)), (id(other), id(one))}
            if one is not other:
                shared.update(each.of for each, beside in ((one, other), (other, one)) if beside.asks_more(each))
            waiting.append(one.meeting(other))
        self._shared = shared

    def _speakers(self, schema: dict[str, Any]) -> _Speakers:
        if (found := self._known.get(id(schema))) is None:
            reference = schema.get("$ref")
            target = self.target(reference) if isinstance(reference, str) else None
            found = self._known[id(schema)] = _Speakers(schema, target, id(schema))
            if found.groups:
                self._known[id(found.own)] = _Speakers(found.own, None, found.of)
        return found


class _Speakers:
    """A schema, and those that speak with it of a value, in groups of which the value follows one.

    `of`: the identity of the schema, whose part without those groups has one of these, too.
    """

    def __init__(self, schema: dict[str, Any], target: Any, of: int) -> None:
        self.schema, self.target, self.of = schema, target, of

    @cached_property
    def own(self) -> dict[str, Any]:
        """The schema without those of its groups."""
        return {key: each for key, each in self.schema.items() if key not in _TOGETHER}

    @cached_property
    def groups(self) -> list[list[dict[str, Any]]]:
        if self.schema.keys().isdisjoint(_TOGETHER):
            return []
        groups = [[self.target], [self.schema.get("then"), self.schema.get("else")]]
        groups += (list_of(self.schema, key) for key in ("anyOf", "oneOf"))
        groups += ([each] for each in list_of(self.schema, "allOf"))
        groups += ([each] for key in _OF_CASES for each in _dict(self.schema, key).values())
        return [found for group in groups if (found := _speaking(group))]

    @cached_property
    def names(self) -> frozenset[str]:
        """The properties that the schema names."""
        required = (name for name in list_of(self.schema, "required") if isinstance(name, str))
        return frozenset((*_dict(self.schema, "properties"), *required))

    @cached_property
    def within(self) -> list[_Places]:
        """The schemas of what is within a value, for each kind of value."""
        get, found = self.schema.get, []
        if not self.schema.keys().isdisjoint(_OF_PROPERTIES):
            further = map(get, ("additionalProperties", "unevaluatedProperties"))
            patterns = _dict(self.schema, "patternProperties").values()
            found.append(_Places("object", _dict(self.schema, "properties"), patterns, further))
        if not self.schema.keys().isdisjoint(_OF_ITEMS):
            first = dict(enumerate(list_of(self.schema, "prefixItems") or list_of(self.schema, "items")))
            further = map(get, ("items", "additionalItems", "unevaluatedItems"))
            found.append(_Places("array", first, [get("contains")], further))
        return found

    def asks_more(self, other: _Speakers) -> bool:
        """Whether this schema may ask of a value what another one does not allow once it is closed."""
        further = ("additionalProperties", "unevaluatedProperties")
        is_open = any(self.schema.get(key, False) is not False for key in further)
        return is_open or not self.schema.keys().isdisjoint(_ASKING) or not self.names <= other.names

    def meeting(self, others: _Speakers) -> Iterator[Pair]:
        """Yield the pairs of schemas that speak of one value where these and others speak of one."""
        if self is others:
            if _speaking([self.own]):
                yield from ((part, self.own) for group in self.groups for part in group)
            yield from ((a, b) for one, other in combinations(self.groups, 2) for a in one for b in other)
        else:
            for mine, theirs in ((self, others), (others, self)):
                yield from ((part, theirs.schema) for group in mine.groups for part in group)
        for ours in self.within:
            for their in others.within:
                if ours.kind == their.kind:
                    yield from ours.meeting(their)


class _Places:
    """The schemas of what is within a value: at one place each, at any place, and at places that have none of their own."""

    def __init__(self, kind: str, at: Mapping[Any, Any], anywhere: Iterable[Any], elsewhere: Iterable[Any]) -> None:
        self.kind = kind
        self.at = {place: each for place, each in at.items() if _speaking([each])}
        self.anywhere, self.elsewhere = _speaking(anywhere), _speaking(elsewhere)

    def meeting(self, others: _Places) -> Iterator[Pair]:
        """Yield the pairs of schemas, one of these and one of others, that may speak of one place."""
        yield from ((a, b) for a in self.anywhere for b in others.anywhere if a is not b)
        for ours, theirs in ((self, others), (others, self)):
            yield from ((a, b) for a in ours.anywhere for b in (*theirs.at.values(), *theirs.elsewhere))
            if self is not others:
                yield from ((a, b) for a in ours.elsewhere for place, b in theirs.at.items() if place not in ours.at)
        if self is not others:
            yield from ((self.at[place], others.at[place]) for place in self.at.keys() & others.at.keys())
            yield from ((a, b) for a in self.elsewhere for b in others.elsewhere)


def _speaking(values: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the schemas that may ask for more than another one, or that are closed or bounded where they stand alone."""
    schemas = (each for each in values if isinstance(each, dict))
    return [each for each in schemas if not each.keys().isdisjoint(_SPEAKING) or each.get("type") == "integer"]


def list_of(schema: dict[str, Any], key: str) -> list[Any]:
    """Return the list that a keyword has; an empty one if it has none, or something else."""
    return value if isinstance(value := schema.get(key), list) else []


def _dict(schema: dict[str, Any], key: str) -> dict[str, Any]:
    return value if isinstance(value := schema.get(key), dict) else {}
