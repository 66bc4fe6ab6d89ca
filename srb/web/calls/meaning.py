"""How alike texts are in what they mean, by embeddings of a model beside; without one, by their words.

A likeness is 1 for equal texts; of embeddings it is their cosine. *Different* is the Vendi score, how many really different
texts there are: the exponential of the entropy of the eigenvalues of the matrix of likenesses, divided by its size.

Sources: Friedman and Dieng 2022, https://arxiv.org/abs/2210.02410; the order by the second eigenvector of the Laplacian in
Atkins, Boman and Hendrickson, "A spectral algorithm for seriation" (SIAM Journal on Computing, 1998).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from srb.web.answers import Meaning
from srb.web.calls.ranking import WordSets, spread

By = Literal["meaning", "words"]
Vectors = Sequence[Sequence[float]]
Embed = Callable[[Sequence[str]], Vectors | None]  # a vector for each text; None: no model is there for it


@dataclass(frozen=True, slots=True)
class Likeness:
    """The likeness of each text with each: a symmetric matrix with ones on its diagonal, and by what it was found."""

    matrix: Any
    by: By

    @classmethod
    def of(cls, texts: Sequence[str], vectors: Vectors | None) -> Likeness:
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

    def spread(self, n: int) -> list[int]:
        """Return `n` texts (or all) that differ: the first, then each time the one least like those that were taken."""
        chosen: list[int] = spread((1.0 - self.matrix).tolist(), n)
        return chosen

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


def meaning_of(prompts: Sequence[tuple[Sequence[int], Likeness]]) -> Meaning:
    """Return what `rank` says of each prompt's branches, by their indices, likeliest first, and their likeness."""
    said: Meaning = {"by": "words", "different": 0.0, "spread": [], "nearest": [], "order": []}
    for indices, likeness in prompts:
        said["by"] = likeness.by
        chosen = likeness.spread(len(indices))
        said["spread"] += [indices[place] for place in chosen]
        for count, place in enumerate(chosen):
            before = chosen[:count]
            nearest = max(before, key=lambda other: likeness.matrix[place][other]) if before else place
            said["nearest"].append(indices[nearest])
        said["order"] += [indices[place] for place in likeness.order()]
    differ = [likeness.different() for _, likeness in prompts]
    said["different"] = round(math.fsum(differ) / len(differ), 2) if differ else 0.0
    return said
