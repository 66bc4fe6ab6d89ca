"""How alike texts are in what they mean, by embeddings of a model beside; without one, by their words.

A likeness is 1 for equal texts; of embeddings it is their cosine. *Different* is the Vendi score, how many really different
texts there are: the exponential of the entropy of the eigenvalues of the matrix of likenesses, divided by its size.

Sources: Friedman and Dieng 2022, https://arxiv.org/abs/2210.02410; the choice, the greedy one for a determinantal point
process, in Chen et al. 2018, https://arxiv.org/abs/1709.05135; the order by the second eigenvector of the Laplacian in
Atkins, Boman and Hendrickson, "A spectral algorithm for seriation" (SIAM Journal on Computing, 1998).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from srb.web.answers import Meaning
from srb.web.calls.ranking import Candidate, WordSets

By = Literal["meaning", "words"]
Vectors = Sequence[Sequence[float]]
NOISE = 0.1  # added to a text's likeness to itself: what two copies would differ by
LIKELIHOOD = 0.1  # weight of a mean log-probability beside the logarithm of the variance: 0.1 nats for 0.04 of 8
# Texts that are chosen, and exchanges, at most: 0.1 s of one core. A larger choice stays as it was taken, one by one.
_MOST_CHOSEN, _MOST_EXCHANGES = 32, 16
Embed = Callable[[Sequence[str]], Vectors | None]  # a vector for each text; None: no model is there for it


@dataclass(frozen=True, slots=True)
class Likeness:
    """The likeness of each text with each: a symmetric matrix with ones on its diagonal, and by what it was found."""

    matrix: Any
    by: By

    @classmethod
    def of(cls, texts: Sequence[str], vectors: Vectors | None) -> "Likeness":
        """Compare texts by their vectors, or by their words without any."""
        import numpy as np  # here, since most workers never need its 15 MB

        if vectors is None:
            return cls(1.0 - np.array(WordSets(texts).distances()).reshape(len(texts), len(texts)), "words")
        rows = np.array(vectors, np.float64).reshape(len(texts), -1)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / np.where(lengths > 0, lengths, 1.0)
        matrix = rows @ rows.T
        np.fill_diagonal(matrix, 1.0)
        return cls(matrix, "meaning")

    def spread(self, n: int, logprobs: Sequence[float]) -> list[int]:
        """Return `n` texts (or all) that differ: the first, then each time the one that those taken say least of.

        The mean `logprobs` of their tokens count a little, so that of two the likelier is taken. Of some texts alone, one
        after another is then exchanged for the one that makes all of them differ most; the first of them begins again.
        """
        chosen = self._one_by_one(range(len(self.matrix)), n, logprobs)
        if len(chosen) in (len(self.matrix), 0) or len(chosen) > _MOST_CHOSEN:
            return chosen
        for _ in range(_MOST_EXCHANGES):
            exchange = self._best_exchange(chosen, logprobs)
            if exchange is None:
                break
            chosen[exchange[0]] = exchange[1]
        return self._one_by_one(sorted(chosen), n, logprobs)

    def _best_exchange(self, chosen: Sequence[int], logprobs: Sequence[float]) -> tuple[int, int] | None:
        """Return which of the chosen texts goes for which other one; None if any exchange would make them more alike."""
        import numpy as np

        others = [place for place in range(len(self.matrix)) if place not in chosen]
        likely, best, found = LIKELIHOOD * np.array(logprobs), 1e-9, None
        for which, place in enumerate(chosen):
            left = [each for each in chosen if each != place]
            inverse = np.linalg.inv(self.matrix[np.ix_(left, left)] + NOISE * np.eye(len(left)))
            said = self.matrix[np.ix_(left, [place, *others])]
            variance = 1.0 + NOISE - (said * (inverse @ said)).sum(axis=0)  # that those left do not explain
            scores = np.log(np.maximum(variance, 1e-12)) + likely[[place, *others]]
            gain = float(scores[1:].max() - scores[0])
            if gain > best:
                best, found = gain, (which, others[int(scores[1:].argmax())])
        return found

    def _one_by_one(self, places: Sequence[int], n: int, logprobs: Sequence[float]) -> list[int]:
        """Return `n` of the texts at `places`, the first of them first."""
        import numpy as np

        matrix, logprobs, size = self.matrix[np.ix_(places, places)], [logprobs[place] for place in places], len(places)
        kernel = matrix + NOISE * np.eye(size)
        left, rows = (
            np.full(size, 1.0 + NOISE),
            np.zeros((size, size)),
        )  # Cholesky's: the variance that is not explained
        chosen: list[int] = []
        while len(chosen) < min(n, size):
            scores = np.log(np.maximum(left, 1e-12)) + LIKELIHOOD * np.array(logprobs)
            scores[chosen] = -np.inf
            best, known = int(scores.argmax()) if chosen else 0, rows[: len(chosen)]
            row = (kernel[best] - known.T @ known[:, best]) / math.sqrt(max(left[best], 1e-12))
            rows[len(chosen)], left = row, left - row * row
            chosen.append(best)
        return [places[place] for place in chosen]

    def groups(self, chosen: Sequence[int], n: int) -> list[list[int]]:
        """Return the first `n` of the `chosen` texts, each with those of the others behind it that it resembles most."""
        groups = [[place] for place in chosen[:n]]
        for place in chosen[n:]:
            max(groups, key=lambda group: self.matrix[place][group[0]]).append(place)
        return groups

    def different(self) -> float:
        """Return how many really different texts there are: from 1 to their number, 0 of none."""
        import numpy as np

        if not len(self.matrix):
            return 0.0
        values = np.linalg.eigvalsh(self.matrix / len(self.matrix))
        values = values[values > 1e-12]
        return float(np.exp(-(values * np.log(values)).sum()))

    def order(self) -> list[int]:
        """Return all texts in an order in which neighbours are alike, from the end where the first text is nearer."""
        import numpy as np

        size = len(self.matrix)
        if size < 3:
            return list(range(size))
        weights = np.maximum(self.matrix, 0.0)
        values = np.linalg.eigh(np.diag(weights.sum(axis=1)) - weights)[1][:, 1]
        order: list[int] = np.argsort(values, kind="stable").tolist()
        return order if 2 * order.index(0) < size else order[::-1]


def logprobs_of(candidates: Sequence[Candidate]) -> list[float]:
    """Return the mean log-probability of each branch; of one without tokens, the least of the others."""
    known = [each.logprob for each in candidates if each.logprob is not None]
    least = min(known, default=0.0)
    return [least if each.logprob is None else each.logprob for each in candidates]


def meaning_of(prompts: Sequence[tuple[Sequence[int], Sequence[Candidate], Likeness]], n: int | None = None) -> Meaning:
    """Return how alike each prompt's branches are: given by their indices, likeliest first, themselves, and their likeness.

    They are put into `n` groups, or into as many as there are really different ones.
    """
    said: Meaning = {"by": "words", "different": 0.0, "spread": [], "nearest": [], "order": [], "groups": []}
    for indices, branches, likeness in prompts:
        said["by"] = likeness.by
        chosen = likeness.spread(len(indices), logprobs_of(branches))
        said["spread"] += [indices[place] for place in chosen]
        groups = likeness.groups(chosen, round(likeness.different()) if n is None else n)
        said["groups"] += [[indices[place] for place in group] for group in groups]
        for count, place in enumerate(chosen):
            before = chosen[:count]
            nearest = max(before, key=lambda other: likeness.matrix[place][other]) if before else place
            said["nearest"].append(indices[nearest])
        said["order"] += [indices[place] for place in likeness.order()]
    differ = [likeness.different() for *_, likeness in prompts]
    said["different"] = round(math.fsum(differ) / len(differ), 2) if differ else 0.0
    return said
