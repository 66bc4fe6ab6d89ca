"""Blocks: a reply as a list of reasoning, text and tool calls, in their order; the form of Responses and Messages."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from srb.web.chat.pieces import CallArguments, CallBegan, CallEnded, Content, Piece, ToolCall
from srb.web.chat.reply_parser import ReplyParser

Kind = Literal["reasoning", "text", "call"]


@dataclass(slots=True)
class Block:
    """A block of a reply; the text of a call is its arguments, as JSON."""

    kind: Kind
    place: int  # among the blocks of its reply
    name: str = ""  # of a call
    id: str = ""  # of a call
    is_whole: bool = True  # but for a call that broke off
    length: int = 0  # characters
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.parts)


@dataclass(frozen=True, slots=True)
class Begin:
    block: Block


@dataclass(frozen=True, slots=True)
class More:
    block: Block
    text: str


@dataclass(frozen=True, slots=True)
class End:
    block: Block


Step = Begin | More | End


class Blocks:
    """The blocks of one reply: `feed` its text as it arrives, then `end`; both return the steps that follow from it.

    At most one block is open. Steps are the same for any division of the text, apart from the division into More.
    """

    def __init__(self, parser: ReplyParser, keeps_text: bool = True) -> None:
        """Without `keeps_text` blocks have no text, only their length: a stream may be of any length."""
        self._parser = parser
        self._keeps_text = keeps_text
        self._open: Block | None = None
        self._length = 0  # characters of the text, with the markers that no block has
        self.all: list[Block] = []

    def __repr__(self) -> str:
        return f"<Blocks {' '.join(block.kind for block in self.all)}{' open' if self._open else ''}: {self._parser!r}>"

    @property
    def calls(self) -> int:
        """The number of calls that are whole."""
        return sum(block.kind == "call" and block.is_whole for block in self.all)

    def joined(self, kind: Kind) -> str:
        """Return the text of all blocks of a kind."""
        return "".join(block.text for block in self.all if block.kind == kind)

    @property
    def plain(self) -> Block | None:
        """The open block of text, if all further text belongs to it; `append` is then enough."""
        return self._open if self._open and self._open.kind == "text" and self._parser.is_plain else None

    def append(self, text: str) -> None:
        """Add text to the block `plain`."""
        self._length += len(text)
        self._more(text)

    def feed(self, text: str) -> list[Step]:
        self._length += len(text)
        return self._steps(self._parser.feed(text))

    def end(self) -> list[Step]:
        """Return the steps of the text that was held back, and the end of the open block."""
        return [*self._steps(self._parser.end()), *self._closed()]

    def reasoning_tokens(self, of: int) -> int:
        """Return how many of the reply's `of` tokens are reasoning, estimated by its part of the characters."""
        shown = sum(block.length for block in self.all if block.kind == "reasoning")
        reasoning = shown + self._parser.num_hidden
        return round(of * reasoning / self._length) if reasoning else 0

    def _steps(self, pieces: Iterable[Piece]) -> list[Step]:
        steps: list[Step] = []
        for piece in pieces:
            if isinstance(piece, ToolCall):
                block = Block("call", len(self.all), piece.name, piece.id)
                steps += [*self._closed(), *self._begun(block), *self._more(piece.arguments), *self._closed()]
                continue
            if isinstance(piece, CallBegan):
                steps += [*self._closed(), *self._begun(Block("call", len(self.all), piece.name, piece.id))]
                continue
            if isinstance(piece, CallArguments):
                steps += self._more(piece.text)
                continue
            if isinstance(piece, CallEnded):
                assert self._open is not None
                self._open.is_whole = piece.is_whole
                steps += self._closed()
                continue
            kind: Kind = "text" if isinstance(piece, Content) else "reasoning"
            if self._open is None or self._open.kind != kind:
                steps += [*self._closed(), *self._begun(Block(kind, len(self.all)))]
            steps += self._more(piece.text)
        return steps

    def _begun(self, block: Block) -> list[Step]:
        self.all.append(block)
        self._open = block
        return [Begin(block)]

    def _more(self, text: str) -> list[Step]:
        assert self._open is not None
        self._open.length += len(text)
        if self._keeps_text:
            self._open.parts.append(text)
        return [More(self._open, text)]

    def _closed(self) -> list[Step]:
        closed, self._open = self._open, None
        return [End(closed)] if closed else []


def blocks_of(parser: ReplyParser, text: str) -> Blocks:
    """Return the blocks of a complete reply."""
    blocks = Blocks(parser)
    blocks.feed(text)
    blocks.end()
    return blocks
