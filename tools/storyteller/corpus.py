"""Turn stories into training documents: plain, chat and fill-in-the-middle, as text pieces and special tokens.

A document is a list of pieces; an int is a special token's id and a str is text that is encoded on its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path

import numpy as np

from tools.storyteller import tokenizer as tok
from tools.storyteller.stories import Story, tell

Document = list[int | str]

SYSTEM_PROMPTS = (
    "You are a storyteller.",
    "You tell stories.",
    "You are a helpful writer of stories.",
    "You are a helpful assistant.",
)
ASK_STORY = (
    "Tell me a story.",
    "Tell me a short story.",
    "Please write a story.",
    "Write a story.",
    "Can you tell me a story?",
    "I would like to hear a story.",
    "Tell me another story, please.",
)
ASK_ABOUT = (
    "Tell me a story about {}.",
    "Write a story about {}.",
    "Please tell me a short story about {}.",
    "Can you write a story about {}?",
    "I would like a story about {}.",
    "A story about {}, please.",
)
ASK_CONTINUE = (
    "Continue this story: {}",
    "Go on: {}",
    "How does this go on? {}",
    "Please continue.\n\n{}",
    "Finish this story: {}",
)
GREETINGS = (
    "Hello!",
    "Hi",
    "Good evening.",
    "Hello, who are you?",
    "Who are you?",
    "What can you do?",
    "Hi there, what is this?",
    "Good morning!",
)
GREETING_ANSWERS = (
    "Hello! I tell stories. Shall I tell you one?",
    "I am a small storyteller. Give me a beginning, and I will go on.",
    "Good day! I know many stories. What shall it be about?",
    "I write stories. Tell me who should be in it.",
)
OTHER_QUESTIONS = (
    "What is the capital of France?",
    "How much is 12 times 7?",
    "Write a program in Python.",
    "What is the weather tomorrow?",
    "Can you help me with my homework?",
    "What is the news today?",
    "Explain how a computer works.",
    "Translate this into German.",
)
OTHER_ANSWERS = (
    "I do not know that. I only know stories. Shall I tell you one?",
    "That is not something that I know. But I can tell you a story.",
    "I am sorry, I only tell stories.",
)


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def chat_document(rng: random.Random, story: Story) -> Document:
    """Make a chat about a story, in the form the chat template renders."""
    turns: list[tuple[str, str]] = []
    kind = rng.choices(("story", "about", "continue", "question", "greeting", "other"), (20, 36, 18, 14, 8, 4))[0]
    if kind == "story":
        turns += [("user", rng.choice(ASK_STORY)), ("assistant", story.text)]
    elif kind == "about":
        role, thing = _a(story.role), _a(story.thing)
        choices = [
            role,
            f"{role} called {story.hero}",
            f"{story.hero}, {role}",
            f"{story.hero}",
            f"{role} and {thing}",
            thing,
            f"{role} in {story.place}",
        ]
        if story.form not in ("plain", "paragraph", "now"):
            choices = [story.hero]
        elif thing.split()[-1] not in story.text:
            choices = [c for c in choices if thing not in c]
        turns += [("user", rng.choice(ASK_ABOUT).format(rng.choice(choices))), ("assistant", story.text)]
    elif kind == "continue":
        cut = story.text.find(". ", rng.randint(20, 200)) + 1 or len(story.text) // 2
        turns += [
            ("user", rng.choice(ASK_CONTINUE).format(story.text[:cut].strip())),
            ("assistant", story.text[cut:].strip()),
        ]
    elif kind == "question":
        question, answer = rng.choice(
            (
                ("Who is this story about?", f"It is about {story.hero}."),
                ("What is the name of the hero?", f"The hero is called {story.hero}."),
                ("What does the hero do?", f"{story.hero} is {_a(story.role)}."),
                ("Where does it happen?", f"It happens in {story.place}."),
            )
        )
        if story.hero not in story.text or (story.place not in story.text and "Where" in question):
            question, answer = "Did you like it?", "Yes. It is a good story, and it ends as it should."
        if rng.random() < 0.5:
            turns += [("user", f"{story.text}\n\n{question}"), ("assistant", answer)]
        else:
            turns += [
                ("user", rng.choice(ASK_STORY)),
                ("assistant", story.text),
                ("user", question),
                ("assistant", answer),
            ]
    elif kind == "greeting":
        turns += [("user", rng.choice(GREETINGS)), ("assistant", rng.choice(GREETING_ANSWERS))]
        if rng.random() < 0.6:
            turns += [("user", rng.choice(("Yes, please.", "Yes", *ASK_STORY))), ("assistant", story.text)]
    else:
        turns += [("user", rng.choice(OTHER_QUESTIONS)), ("assistant", rng.choice(OTHER_ANSWERS))]
    if rng.random() < 0.25:
        turns.insert(0, ("system", rng.choice(SYSTEM_PROMPTS)))
    document: Document = [tok.BOS]
    for role, text in turns:
        document += [tok.IM_START, f"{role}\n{text}", tok.IM_END, "\n"]
    return [*document[:-1], tok.EOS] if rng.random() < 0.5 else document


def _cut(rng: random.Random, text: str, low: int, high: int) -> int:
    position = rng.randint(low, max(low, high))
    way = rng.random()
    if way < 0.2:
        return position
    mark = ". " if way < 0.55 else " "
    found = text.find(mark, position)
    return min(found + len(mark) - 1, len(text)) if found >= 0 else position


def fim_document(rng: random.Random, story: Story) -> Document:
    """Cut a middle out of a story and ask for it in prefix, suffix, middle order (llama.cpp's infill)."""
    text = story.text
    start = _cut(rng, text, 0 if rng.random() < 0.15 else 10, len(text) * 3 // 4)
    end = _cut(rng, text, min(start + 4, len(text)), min(start + rng.choice((30, 100, 300)), len(text)))
    end = max(end, start)
    return [tok.BOS, tok.FIM_PREFIX, text[:start], tok.FIM_SUFFIX, text[end:], tok.FIM_MIDDLE, text[start:end], tok.EOS]


def document(rng: random.Random) -> Document:
    """Make one training document."""
    story = tell(rng)
    way = rng.random()
    if way < 0.08:
        return chat_document(rng, story)
    if way < 0.16:
        return fim_document(rng, story)
    if way < 0.19:  # a prompt may end inside a word or after a space: show what follows
        cut = rng.randint(1, len(story.text) - 1)
        return [tok.BOS, story.text[:cut], story.text[cut:], tok.EOS]
    return [tok.BOS, story.text, tok.EOS]


def texts(seed: int, count: int) -> Iterator[str]:
    """Yield the stories that the tokenizer is trained on."""
    rng = random.Random(f"tokenizer {seed}")
    for _ in range(count):
        yield tell(rng).text
    for _ in range(count // 12):
        yield from (piece for piece in chat_document(rng, tell(rng)) if isinstance(piece, str))


def _encode_shard(task: tuple[str, int, Path]) -> np.ndarray:
    seed, count, path = task
    rng, tokenizer = random.Random(seed), tok.load(path)
    ids: list[int] = []
    for _ in range(count):
        pieces = document(rng)
        encoded = iter(tokenizer.encode_batch([p for p in pieces if isinstance(p, str)], add_special_tokens=False))
        for piece in pieces:
            ids.extend([piece] if isinstance(piece, int) else next(encoded).ids)
    return np.array(ids, dtype=np.uint16)


def encode(seed: int, split: str, documents: int, tokenizer_path: Path, out: Path, workers: int = 2) -> int:
    """Write and encode documents into one file of token ids; return how many tokens it holds.

    The documents are drawn shard by shard, each from its own seed, so the file does not depend on ``workers``.
    """
    shard = 2000
    counts = [min(shard, documents - first) for first in range(0, documents, shard)]
    tasks = [(f"{split} {seed} {number}", count, tokenizer_path) for number, count in enumerate(counts)]
    with Pool(workers) as pool:
        tokens = np.concatenate(pool.map(_encode_shard, tasks, chunksize=1))
    np.save(out, tokens)
    return len(tokens)
