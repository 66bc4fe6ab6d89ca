"""How likely, how alike and how different the branches of one prompt are: pure functions of their texts and ends.

Texts are compared by their words, in lower case and without punctuation; where a script puts no spaces between words, each
character is one. The distance of two texts is the Jaccard distance of two sets, each with a text's words and its pairs of
neighbouring words: 0 for the same words in the same order, 1 if no word is common. It is a metric.

The likeliest branch is often one that loops, since a model expects what it has read. A *fresh* ranking takes the share of a
branch's groups of four words that have come before, in the prompt, in the branch or in a likelier one, and subtracts WEIGHT
times this share from the mean log-probability.

Sources: distinct-n in Li et al., https://arxiv.org/abs/1510.03055 (here each n-gram by the number of n-grams); the greedy
choice in Ravi et al., "Heuristic and special case algorithms for dispersion problems" (Operations Research, 1994).
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, count
from typing import Literal

from srb.web.answers import Diversity, Ranking

Select = Literal["likely", "diverse", "meaning"]

NEAR = 0.1  # the largest Jaccard distance of texts that are nearly the same: they share nine words of ten
WEIGHT = 4.0  # nats: a branch that only repeats is ranked as if each token were e⁻⁴ times as likely
GROUP = 4  # words; groups of three come again in any prose ("one of the")
MAX_WORDS = 2**18  # of all texts together; of longer ones the first words count, so that memory is bounded

# Thai, Lao, Burmese, Khmer, kana and Han: scripts without spaces between words.
_ALONE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
# Spaces, and the punctuation of ASCII, Latin, Armenian, Arabic, Indian and East Asian scripts.
_BETWEEN = (
    r"\s!-/:-@\[-`{-~\u00a1-\u00bf\u0589\u060c\u061b\u061f\u06d4\u0964\u0965\u2000-\u206f\u3000-\u303f"
    "\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
)
_WORD = re.compile(f"[{_ALONE}]|[^{_BETWEEN}{_ALONE}]+")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A branch that has ended: its text, and the mean log-probability of its tokens (None without tokens)."""

    text: str
    logprob: float | None = None
    failed: bool = False

    @property
    def likelihood(self) -> tuple[bool, float]:
        """The order of candidates: those without tokens come after those with tokens, failed ones last."""
        return not self.failed, -math.inf if self.logprob is None else self.logprob


def rank(
    prompts: Sequence[Mapping[int, Candidate]], near: bool = False, before: Sequence[str] | None = None
) -> Ranking:
    """Return the ranking of the branches of each prompt, which are given by their indices in the answer.

    With the texts `before` them, of each prompt, what repeats counts less.

    The branches of different prompts are not compared: their rankings follow each other, and the numbers of `diversity` are
    the means over the prompts.
    """
    if before is None:
        order = [index for branches in prompts for index in likeliest_first(branches)]
    else:
        order = [index for branches, text in zip(prompts, before, strict=True) for index in fresh_first(branches, text)]
    alike: list[list[int]] = []
    nearly: list[list[int]] = []
    measured: list[Diversity] = []
    for branches in prompts:
        kept = [index for index in sorted(branches) if not branches[index].failed]
        words = WordSets([branches[index].text for index in kept])
        alike += _named(kept, same([branches[index].text for index in kept]))
        nearly += _named(kept, words.near()) if near else []
        measured.append(words.diversity())
    found: Ranking = {"ranking": order, "duplicates": alike, "diversity": _mean(measured)}
    if near:
        found["near_duplicates"] = nearly
    return found


def choose(
    candidates: Sequence[Candidate],
    n: int,
    select: Select,
    spread_of: Callable[[Sequence[Candidate], int], list[int]] | None = None,
) -> list[int]:
    """Return the places of `n` candidates: the likeliest first, or (`diverse`) it and then each that differs most.

    They differ by `spread_of`, which returns `n` of them that do, the first included; without it by their words. Failed
    candidates are chosen only if there are no others left.
    """
    order = likeliest_first(dict(enumerate(candidates)))
    if select == "likely":
        return order[:n]
    whole = [place for place in order if not candidates[place].failed]
    kept = [candidates[place] for place in whole]
    rows = spread_of(kept, n) if spread_of else spread(WordSets([each.text for each in kept]).distances(), n)
    chosen = [whole[row] for row in rows]
    return chosen + order[len(whole) :][: n - len(chosen)]


def likeliest_first(branches: Mapping[int, Candidate]) -> list[int]:
    """Return the indices by likelihood; of equal ones the lower index comes first."""
    return sorted(sorted(branches), key=lambda index: branches[index].likelihood, reverse=True)


def fresh_first(branches: Mapping[int, Candidate], before: str) -> list[int]:
    """Return the indices by likelihood less what repeats; of equal ones the likelier comes first."""
    order = likeliest_first(branches)
    whole = [index for index in order if not branches[index].failed and branches[index].logprob is not None]
    shares = repeated_shares([branches[index].text for index in whole], before)
    scores = {
        index: (branches[index].logprob or 0.0) - WEIGHT * share for index, share in zip(whole, shares, strict=True)
    }
    return sorted(whole, key=scores.__getitem__, reverse=True) + order[len(whole) :]


def repeated_shares(texts: Sequence[str], before: str) -> list[float]:
    """Return of each text the share of its groups of words that stand in `before`, a text before it, or earlier in it."""
    longest = MAX_WORDS // (1 + len(texts))
    known = set(_groups(_WORD.findall(before.casefold())[-longest:]))
    shares = []
    for text in texts:
        groups = _groups(_WORD.findall(text.casefold())[:longest])
        least = len(known)
        known.update(groups)
        shares.append(_ratio(least + len(groups) - len(known), len(groups)))
    return shares


def _groups(words: Sequence[str]) -> list[tuple[str, ...]]:
    return list(zip(*(words[start:] for start in range(GROUP)), strict=False))


def spread(distances: Sequence[Sequence[float]], n: int) -> list[int]:
    """Return `n` rows (or all) that lie far apart: the first, then each time the one farthest from those chosen.

    Of equally far ones the first is taken. For a metric, the least distance within the choice is at least half of what the
    best choice would reach.
    """
    nearest = list(distances[0]) if distances else []  # of each row: its distance to the nearest chosen one
    chosen = [0] if distances and n else []
    while len(chosen) < min(n, len(distances)):
        best = max((row for row in range(len(distances)) if row not in chosen), key=nearest.__getitem__)
        chosen.append(best)
        nearest = list(map(min, nearest, distances[best]))
    return chosen


def same(texts: Sequence[str]) -> list[list[int]]:
    """Return the groups of places whose texts are the same, each with at least two."""
    groups: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        groups.setdefault(text, []).append(place)
    return [group for group in groups.values() if len(group) > 1]


class WordSets:
    """The sets of words and of pairs of words of some texts; a set is a whole number with a bit for each member.

    So the members that two sets share are counted by one `&`, and 2,016 pairs of long texts take some milliseconds.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        import numpy as np  # here, since most workers never need its 15 MB

        longest = MAX_WORDS // max(1, len(texts))
        words = [_WORD.findall(text.casefold())[:longest] for text in texts]
        numbers: defaultdict[str, int] = defaultdict(count().__next__)
        lengths = list(map(len, words))
        singles = np.fromiter(map(numbers.__getitem__, chain.from_iterable(words)), np.int64, sum(lengths))
        places = np.repeat(np.arange(len(texts)), lengths)
        neighbours = places[1:] == places[:-1]  # not the last word of a text and the first of the next one
        found, pairs = np.unique((singles[:-1] * len(numbers) + singles[1:])[neighbours], return_inverse=True)
        self.distinct_1 = _ratio(len(numbers), len(singles))
        self.distinct_2 = _ratio(len(found), len(pairs))
        self._bits: list[int] = []
        word = pair = 0  # the first ones of the next text
        for length in lengths:
            members = np.zeros(len(numbers) + len(found), np.bool_)
            members[singles[word : word + length]] = True
            members[len(numbers) + pairs[pair : pair + max(0, length - 1)]] = True
            word, pair = word + length, pair + max(0, length - 1)
            self._bits.append(int.from_bytes(np.packbits(members).tobytes()))
        self._sizes = [bits.bit_count() for bits in self._bits]

    def distance(self, one: int, other: int) -> float:
        """Return the Jaccard distance of two texts, by their places; two texts without words have none."""
        shared = (self._bits[one] & self._bits[other]).bit_count()
        union = self._sizes[one] + self._sizes[other] - shared
        return 1 - shared / union if union else 0.0

    def distances(self) -> list[list[float]]:
        """Return the Jaccard distance, 0 … 1, of each text from each: n rows of n, symmetric."""
        rows = [[0.0] * len(self._bits) for _ in self._bits]
        for one, other in combinations(range(len(rows)), 2):
            rows[one][other] = rows[other][one] = self.distance(one, other)
        return rows

    def near(self) -> list[list[int]]:
        """Return the groups of places in which each text is nearly the same as at least one other."""
        groups = list(range(len(self._bits)))
        for one, other in combinations(range(len(groups)), 2):
            if groups[one] != groups[other] and self.distance(one, other) <= NEAR:
                joined = groups[other]
                groups = [groups[one] if group == joined else group for group in groups]
        by_group: dict[int, list[int]] = {}
        for place, group in enumerate(groups):
            by_group.setdefault(group, []).append(place)
        return [group for group in by_group.values() if len(group) > 1]

    def diversity(self) -> Diversity:
        """Return distinct-1, distinct-2 and the mean distance of two texts; 0 where there is nothing to count."""
        pairs = list(combinations(range(len(self._bits)), 2))
        total = math.fsum(self.distance(one, other) for one, other in pairs)
        return {"distinct_1": self.distinct_1, "distinct_2": self.distinct_2, "distance": _ratio(total, len(pairs))}


def _named(indices: Sequence[int], groups: list[list[int]]) -> list[list[int]]:
    return [[indices[place] for place in group] for group in groups]


def _mean(measured: Sequence[Diversity]) -> Diversity:
    def mean(values: list[float]) -> float:
        return round(math.fsum(values) / len(values), 4) if values else 0.0

    return {
        "distinct_1": mean([each["distinct_1"] for each in measured]),
        "distinct_2": mean([each["distinct_2"] for each in measured]),
        "distance": mean([each["distance"] for each in measured]),
    }


def _ratio(amount: float, by: int) -> float:
    return amount / by if by else 0.0
