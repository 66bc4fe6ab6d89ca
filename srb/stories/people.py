"""People who keep stories: the owner of a story, those with whom it is shared, and the right that each of them has.

A person is a name, "" for all who have none; None is the command line, which may do everything.
"""

from enum import IntEnum
from typing import Literal

from srb.errors import Forbidden, NotFound
from srb.stories.database import Connection

Person = str | None
Access = Literal["read", "write", "none"]

_PUT_SHARE = """
    INSERT INTO share (story, name, writes) VALUES (?, ?, ?)
    ON CONFLICT (story, name) DO UPDATE SET writes = excluded.writes
"""


class Right(IntEnum):
    """A person's right to a story; each includes those below it."""

    NONE = 0
    READ = 1
    WRITE = 2
    OWN = 3

    @property
    def access(self) -> Literal["read", "write"] | None:
        """The access that the owner has given; None for the owner."""
        return None if self is Right.OWN else "write" if self is Right.WRITE else "read"


def check_right(connection: Connection, number: int, owner: str, person: Person, needed: Right) -> Right:
    """Return a person's right. Raise Forbidden if it is less than needed; NotFound without any: others learn of no story."""
    right = right_of(connection, number, owner, person)
    if right is Right.NONE:
        raise NotFound("There is no such story")
    if right < needed:
        raise Forbidden(
            f"This story is {owner}'s, and you may {'only read it' if right is Right.READ else 'change its text'}",
            owner=owner,
        )
    return right


def right_of(connection: Connection, number: int, owner: str, person: Person) -> Right:
    if person is None or owner == person:
        return Right.OWN
    query = "SELECT writes FROM share WHERE story = ? AND name = ?"
    found = connection.execute(query, (number, person)).fetchone()
    return Right.NONE if found is None else Right.WRITE if found[0] else Right.READ


def whose(person: Person) -> str:
    """Return a query for the numbers of the stories that `:person` may read: by the indexes of owners and of shares."""
    if person is None:
        return "SELECT number FROM story"
    return "SELECT number FROM story WHERE owner = :person UNION SELECT story FROM share WHERE name = :person"


def shares_of(connection: Connection, number: int) -> dict[str, Access]:
    """Return the names that a story is shared with."""
    query = "SELECT name, writes FROM share WHERE story = ? ORDER BY name"
    return {name: "write" if writes else "read" for name, writes in connection.execute(query, (number,))}


def share(connection: Connection, number: int, name: str, access: Access) -> None:
    """Let a name read or write a story, or take that back."""
    if access == "none":
        connection.execute("DELETE FROM share WHERE story = ? AND name = ?", (number, name))
    else:
        connection.execute(_PUT_SHARE, (number, name, access == "write"))


def give(connection: Connection, number: int, owner: str) -> None:
    """Make a story another person's, who needs no share of it any more."""
    connection.execute("UPDATE story SET owner = ? WHERE number = ?", (owner, number))
    share(connection, number, owner, "none")
