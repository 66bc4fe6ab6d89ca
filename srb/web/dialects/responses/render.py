"""OpenAI's Responses, rendered as streamed events and as one object.

Each block of a branch is an item. In a stream the items of several branches grow side by side, and `output` has them in the
order of their beginnings, as `output_index` counts; an answer that was not streamed has them branch after branch.
"""

from typing import Any

import orjson

from srb.errors import AnswerTooLarge, SRBError
from srb.web.answers import JSONObject, Ranking
from srb.web.calls.answer_size import weight
from srb.web.calls.calls import Call
from srb.web.calls.outcome import Outcome
from srb.web.calls.renderer import Renderer, named_sse, prompt_progress
from srb.web.chat.blocks import Begin, Block, More, Step
from srb.web.dialects.responses.frame import ResponseBranch, ResponseFrame
from srb.wire.events import BranchAdded, BranchEnded, Delta, Done, Progress, PromptEvent


def response(frame: ResponseFrame, outcome: Outcome, ranking: Ranking) -> JSONObject:
    """Return the answer of a call that was not streamed."""
    branches, output = [], []
    for index, done in enumerate(outcome.branches):
        branch = frame.branch(index, done.seed)
        branch.blocks.feed(done.text)
        branch.blocks.end()
        branch.probs, branch.ended = done.probs, done.ended
        branches.append(branch)
        output += [frame.item(branch, block, branch.status(block)) for block in branch.blocks.all]
    return frame.ended(branches, output, outcome.done, ranking)


class ResponsesRenderer(Renderer):
    """The events of a streamed response."""

    def __init__(self, call: Call, frame: ResponseFrame) -> None:
        super().__init__(call)
        self._frame = frame
        self._branches = [frame.branch(index, spec.seed) for index, spec in enumerate(self._specs)]
        self._output: list[JSONObject] = []
        self._places: dict[int, int] = {}  # by id() of a block: its output_index
        self._plain: dict[int, bytes] = {}  # by branch: the bytes before the text of an event
        self._unsent: list[int] = [0] * len(self._branches)  # by branch: number of log-probabilities that were sent
        self._number = 0
        self._limit, self._size = call.max_answer_bytes, 0  # of the texts, which the last events repeat

    def start(self) -> bytes:
        begun = self._frame.begun(self._branches)
        return self._event("response.created", response=begun) + self._event("response.in_progress", response=begun)

    def prompt(self, event: PromptEvent) -> bytes:
        if type(event) is not Progress:
            return b""
        begun = self._frame.begun(self._branches)
        return self._event("response.in_progress", response=begun, prompt_progress=prompt_progress(event))

    def delta(self, event: Delta) -> bytes:
        branch = self._branches[event.index]
        self._size += weight(event)
        if self._size > self._limit:
            raise AnswerTooLarge(
                f"The response, which a stream repeats at its end, exceeds {self._limit} bytes (8 × max_body_bytes): "
                "ask for fewer branches (n) or tokens (max_output_tokens)"
            )
        if event.probs:
            branch.probs += event.probs
        elif (block := branch.blocks.plain) is not None:
            if not event.text:
                return b""
            branch.blocks.append(event.text)
            return self._plain_text(branch, block, event.text)
        return self._steps(branch, branch.blocks.feed(event.text))

    def branch_added(self, event: BranchAdded) -> bytes:
        super().branch_added(event)
        if event.resumed:
            self._branches[event.index].ended = None
            return b""
        self._branches.append(self._frame.branch(event.index, event.seed))
        self._unsent.append(0)
        return self.delta(event.begun)

    def _branch_ended(self, event: BranchEnded, error: SRBError | None) -> bytes:
        branch = self._branches[event.index]
        branch.ended = event
        self._plain.pop(event.index, None)
        return self._steps(branch, branch.blocks.end())

    def _end(self, done: list[Done]) -> bytes:
        ended = self._frame.ended(self._branches, self._output, done, self.ranking())
        return self._event(f"response.{ended['status']}", response=ended)

    def failed(self, error: SRBError) -> bytes:
        return self._event("response.failed", response=self._frame.failed(self._branches, self._output, error))

    # Events -----------------------------------------------------------------------------------------------------------

    def _event(self, kind: str, **values: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        return named_sse(kind, {"type": kind, **values, "sequence_number": number})

    def _plain_text(self, branch: ResponseBranch, block: Block, text: str) -> bytes:
        """Render new text, which is nearly all that a stream has, from bytes that are encoded once for an item."""
        kind = "response.output_text.delta"
        if branch.index not in self._plain:
            head = named_sse(kind, {"type": kind, "content_index": 0, **self._of(block)}).removesuffix(b"}\n\n")
            self._plain[branch.index] = head + b',"logprobs":[],"delta":'
        number, self._number = self._number, self._number + 1
        return b'%b%b,"sequence_number":%d}\n\n' % (self._plain[branch.index], orjson.dumps(text), number)

    def _of(self, block: Block) -> dict[str, Any]:
        place = self._places[id(block)]
        return {"item_id": self._output[place]["id"], "output_index": place}

    def _steps(self, branch: ResponseBranch, steps: list[Step]) -> bytes:
        return b"".join(
            self._begin(branch, step.block)
            if isinstance(step, Begin)
            else self._more(branch, step.block, step.text)
            if isinstance(step, More)
            else self._done(branch, step.block)
            for step in steps
        )

    def _begin(self, branch: ResponseBranch, block: Block) -> bytes:
        place = self._places[id(block)] = len(self._output)
        item = self._frame.item(branch, block, "in_progress")
        self._output.append(item)
        data = self._event("response.output_item.added", output_index=place, item=item)
        if block.kind == "call":
            return data
        part: dict[str, Any] = {"type": "reasoning_text", "text": ""}
        if block.kind == "text":
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        return data + self._event("response.content_part.added", **self._of(block), content_index=0, part=part)

    def _more(self, branch: ResponseBranch, block: Block, text: str) -> bytes:
        if block.kind == "call":
            return self._event("response.function_call_arguments.delta", **self._of(block), delta=text)
        if block.kind == "reasoning":
            return self._event("response.reasoning_text.delta", **self._of(block), content_index=0, delta=text)
        sent, self._unsent[branch.index] = self._unsent[branch.index], len(branch.probs)
        return self._event(
            "response.output_text.delta", **self._of(block), content_index=0, delta=text, logprobs=branch.probs[sent:]
        )

    def _done(self, branch: ResponseBranch, block: Block) -> bytes:
        place = self._places[id(block)]
        item = self._output[place] = self._frame.item(branch, block, branch.status(block))
        of = self._of(block)
        if item["type"] == "function_call":
            data = self._event(
                "response.function_call_arguments.done", **of, name=item["name"], arguments=item["arguments"]
            )
        elif item["type"] == "reasoning":
            part = item["content"][0]
            data = self._event("response.reasoning_text.done", **of, content_index=0, text=part["text"])
            data += self._event("response.content_part.done", **of, content_index=0, part=part)
        else:
            text = item["content"][0]
            data = self._event(
                "response.output_text.done", **of, content_index=0, text=text["text"], logprobs=text["logprobs"]
            )
            data += self._event("response.content_part.done", **of, content_index=0, part=text)
        return data + self._event("response.output_item.done", output_index=place, item=item)
