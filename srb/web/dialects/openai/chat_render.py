"""OpenAI's chat completions, rendered as streamed chunks and as one object.

As in text completions, an event has one choice, `finish_reason` is null until the end, and usage is sent once. The reply
parser splits a reply into reasoning, content and tool calls.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

import orjson

from srb.errors import SRBError
from srb.web.answers import JSONObject, Ranking
from srb.web.calls.calls import Call
from srb.web.calls.outcome import BranchOutcome, Outcome
from srb.web.calls.renderer import prompt_progress
from srb.web.chat.blocks import Block, blocks_of
from srb.web.chat.families import END_THINK, THINK
from srb.web.chat.pieces import CallArguments, CallBegan, CallEnded, Content, Piece, Reasoning
from srb.web.chat.reply_parser import ReplyParser
from srb.web.dialects.llamacpp.render import Answers
from srb.web.dialects.openai.chat_body import ChatRequest
from srb.web.dialects.openai.completion_render import ending
from srb.web.dialects.openai.frame import ChunkRenderer, origin, whole
from srb.web.dialects.openai.token_fields import NO_IDS, TokenIds, prompt_logprobs
from srb.wire.events import BranchAdded, BranchEnded, Delta, ModelInfo, Progress, PromptEvent, TokenProbs


class ChatRenderer(ChunkRenderer):
    """Chunks of a chat; a branch's text passes through its parser until all further text is content.

    Log-probabilities and token ids are held back with the text: a chunk has those of all tokens since the last chunk.
    """

    def __init__(
        self,
        asked: ChatRequest,
        call: Call,
        model: ModelInfo,
        include_usage: bool = False,
        ids: TokenIds = NO_IDS,
        verbose: Answers | None = None,
    ) -> None:
        frame = origin("chatcmpl", call, model)
        empty: JSONObject = {"object": "chat.completion.chunk", **frame, "choices": []}
        super().__init__(call, empty, include_usage, verbose)
        self._asked = asked
        self._ids = ids
        self._branches = [_Branch(asked.parser(stream=True, in_parts=True), ids) for _ in self._specs]
        self._before, self._after = self._around(b'"delta":{"content":', b'},"logprobs":null,"finish_reason":null')

    def start(self) -> bytes:
        role: JSONObject = {"role": "assistant", "content": ""}
        prompt = self._ids.of_prompt(0)
        return b"".join(self._chunk(_choice_of(index, role), more=prompt) for index in range(len(self._branches)))

    def _begun(self, event: BranchAdded) -> bytes:
        index = len(self._branches)
        self._branches.append(_Branch(self._asked.parser(stream=True, in_parts=True), self._ids))
        self._before.append(self._before_index(index))
        role = self._chunk(_choice_of(index, {"role": "assistant", "content": ""}))
        return role + (self.delta(event.begun) if event.tokens else b"")

    def prompt(self, event: PromptEvent) -> bytes:
        """Render progress with an empty delta, since clients read the first choice of every chunk."""
        if type(event) is not Progress:
            return super().prompt(event)
        return self._chunk(_choice_of(0, {}), prompt_progress(event))

    def delta(self, event: Delta) -> bytes:
        branch = self._branches[event.index]
        if self._verbose is not None:
            self._verbose.partial(event)  # counts
        if not event.probs and not self._ids and branch.parser.is_plain:
            return self._before[event.index] + orjson.dumps(event.text) + self._after if event.text else b""
        branch.probs += event.probs or ()
        branch.tokens += event.tokens
        return self._pieces(event.index, branch, branch.parser.feed(event.text))

    def _branch_ended(self, event: BranchEnded, error: SRBError | None) -> bytes:
        branch = self._branches[event.index]
        verbose = self._verbose.final(event) if self._verbose is not None else None
        data = self._pieces(event.index, branch, branch.parser.end(), verbose)
        choice: JSONObject = {
            "index": event.index,
            "delta": {},
            "logprobs": None,
            **_chat_ending(event, branch.whole_calls),
            "seed": self._specs[event.index].seed,
        }
        branch.move_details_to(choice, event)
        return data + self._chunk(choice, verbose=None if data else verbose)

    def _pieces(self, index: int, branch: "_Branch", pieces: list[Piece], verbose: JSONObject | None = None) -> bytes:
        """Render new pieces of a branch, the first one with `verbose`."""
        data = b""
        for piece in _joined(pieces):
            if isinstance(piece, CallEnded):
                branch.whole_calls += piece.is_whole
                continue
            choice = _choice_of(index, branch.delta(piece))
            branch.move_details_to(choice)
            data += self._chunk(choice, verbose=None if data else verbose)
        return data


class _Branch:
    """The state of one branch in a stream."""

    def __init__(self, parser: ReplyParser, ids: TokenIds) -> None:
        self.parser = parser
        self._ids = ids
        self.calls = 0
        self.whole_calls = 0
        self.probs: list[TokenProbs] = []
        self.tokens: list[int] = []

    def delta(self, piece: Piece) -> JSONObject:
        if isinstance(piece, CallBegan):
            self.calls += 1
            function: JSONObject = {"name": piece.name, "arguments": ""}
            return {"tool_calls": [{"index": self.calls - 1, "id": piece.id, "type": "function", "function": function}]}
        if isinstance(piece, CallArguments):
            return {"tool_calls": [{"index": self.calls - 1, "function": {"arguments": piece.text}}]}
        assert isinstance(piece, Content | Reasoning)
        return {"content": piece.text} if isinstance(piece, Content) else {"reasoning_content": piece.text}

    def move_details_to(self, choice: JSONObject, ended: BranchEnded | None = None) -> None:
        """Move the log-probabilities and ids of all tokens since the last chunk into the choice of a new chunk."""
        if self.probs:
            choice["logprobs"] = {"content": self.probs, "refusal": None}
        found = self._ids.of(self.tokens, ended)
        choice |= {name: tokens for name, tokens in found.items() if tokens}
        self.probs, self.tokens = [], []


def chat_completion(
    asked: ChatRequest,
    call: Call,
    model: ModelInfo,
    outcome: Outcome,
    ids: TokenIds = NO_IDS,
    verbose: Answers | None = None,
    ranking: Ranking | None = None,
) -> JSONObject:
    """Return the answer of a call that was not streamed."""
    choices = [_choice(asked, index, branch) for index, branch in enumerate(outcome.branches)]
    for choice, branch in zip(choices, outcome.branches, strict=True):
        choice |= ids.of(branch.tokens, branch.ended)
    frame = whole("chatcmpl", call, model, outcome, verbose, ranking or {}) | ids.of_prompt(0)
    if (command := call.commands[0]).prompt_top >= 0:
        frame["prompt_logprobs"] = prompt_logprobs(outcome.prompt_logprobs[command.request_id])
    return {"object": "chat.completion", "choices": choices, **frame}


def _choice(asked: ChatRequest, index: int, branch: BranchOutcome) -> JSONObject:
    assert branch.ended is not None  # the engine ends every branch before the request
    # In parts, as a stream is read: a call that was cut has one form.
    blocks = blocks_of(asked.parser(stream=False, in_parts=True), branch.text)
    content, reasoning = blocks.joined("text"), blocks.joined("reasoning")
    calls = [_call(block) for block in blocks.all if block.kind == "call"]
    if asked.reasoning_format == "deepseek-legacy" and reasoning:
        content = f"{THINK}{reasoning}{END_THINK}{content}"
    message: JSONObject = {"role": "assistant", "content": content if content or not calls else None, "refusal": None}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = calls
    logprobs: JSONObject | None = {"content": branch.probs, "refusal": None} if branch.probs else None
    end = _chat_ending(branch.ended, blocks.calls)
    return {"index": index, "message": message, "logprobs": logprobs, **end, "seed": branch.seed}


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the pieces, with the parts of a call's arguments that came together as one."""
    for is_arguments, group in groupby(pieces, lambda piece: isinstance(piece, CallArguments)):
        if is_arguments:
            yield CallArguments("".join(piece.text for piece in group if isinstance(piece, CallArguments)))
        else:
            yield from group


def _choice_of(index: int, delta: JSONObject) -> JSONObject:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}


def _call(block: Block) -> JSONObject:
    return {"id": block.id, "type": "function", "function": {"name": block.name, "arguments": block.text}}


def _chat_ending(event: BranchEnded, calls: int) -> JSONObject:
    end: JSONObject = {**ending(event)}
    if calls and end["finish_reason"] == "stop":
        end["finish_reason"] = "tool_calls"
    return end
