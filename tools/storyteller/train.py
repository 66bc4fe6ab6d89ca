"""Train the network within a time budget, saving as it goes; a stopped run takes up again where it was.

The budget is a worker's own processor time, so that a busy machine makes the training longer and not worse. The schedule
follows the share of the budget that is spent: warm up, stay, decay to nothing over the last part, and show the network its
whole context for the last stretch. Matrices learn with Muon, embeddings and norms with AdamW.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from tools.storyteller import tokenizer as tok
from tools.storyteller.network import Network, Shape


@dataclass(frozen=True, slots=True)
class Plan:
    """How to train: the budget in minutes, the peak rate, and the sizes of a batch."""

    minutes: float
    seed: int = 1
    rate: float = 5e-3
    embed_rate: float = 4e-3
    batch_tokens: int = 4096
    decay_share: float = 0.45
    again_weight: float = 10.0
    save_every: float = 120.0  # seconds
    workers: int = 2

    def rate_at(self, spent: float) -> float:
        """Return the rate's factor when this share of the budget is spent."""
        return min(1.0, spent / 0.02 + 0.02, max(0.0, 1.0 - spent) / self.decay_share)

    def weight_at(self, spent: float) -> float:
        """Return what a rare token that comes again weighs: much until copying is learned, then less, to even out."""
        return max(1.0, self.again_weight * min(1.0, max(0.0, 0.9 - spent) / 0.5) ** 2)

    def length_at(self, spent: float) -> int:
        """Return the window's length: short ones are cheap, and the last stretch shows the whole context."""
        return 512 if spent < 0.88 else 2048


def document_mask(ids: Tensor) -> Tensor:
    """Return the mask (rows, 1, time, time) that keeps each document to itself."""
    document = (ids == tok.BOS).cumsum(1)
    same = document[:, :, None] == document[:, None, :]
    return same.tril()[:, None]


class Batches:
    """Draw windows from a file of token ids, each from the beginning of a document.

    A window that began in the middle of a story would ask for names that it never saw, and teach guessing.
    """

    def __init__(self, path: Path, seed: int) -> None:
        self.tokens = np.load(path, mmap_mode="r")
        self.rng = np.random.default_rng(seed)
        self.beginnings = np.flatnonzero(self.tokens[: len(self.tokens) - 4096] == tok.BOS)
        counts = np.bincount(self.tokens[:2_000_000], minlength=tok.VOCAB_SIZE)
        self.rare = torch.from_numpy(counts < counts.sum() * 6e-4)

    def draw(self, rows: int, length: int) -> Tensor:
        """Return (rows, length + 1) ids."""
        starts = self.rng.choice(self.beginnings, rows)
        return torch.from_numpy(np.stack([self.tokens[s : s + length + 1] for s in starts]).astype(np.int64))


def keep_memory() -> None:
    """Tell glibc to keep freed memory: giving it back and faulting it in again at each step costs much time."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            libc = ctypes.CDLL("libc.so.6")
            libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
            libc.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD


def loss_of(network: torch.nn.Module, ids: Tensor) -> Tensor:
    """Return the mean cross-entropy of each next token, in bfloat16."""
    with torch.autocast("cpu", torch.bfloat16):
        logits = network(ids[:, :-1])
    return functional.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())


def weighted_loss(network: torch.nn.Module, ids: Tensor, rare: Tensor, weight: float) -> Tensor:
    """Return the loss with documents kept apart and rare tokens that come again weighing more.

    Who and what is meant (a name, a lost thing, a place) is a small share of the tokens and the hardest to learn: it must
    be copied from far back. Its weight makes the network learn to look there early.
    """
    inputs, targets = ids[:, :-1], ids[:, 1:]
    mask = document_mask(inputs)
    again = ((targets[:, :, None] == inputs[:, None, :]) & mask[:, 0]).any(-1) & rare[targets]
    weights = torch.where(again, weight, 1.0).flatten()
    with torch.autocast("cpu", torch.bfloat16):
        logits = network(inputs, mask)
    losses = functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="none")
    return (losses * weights).sum() / weights.sum()


@torch.no_grad()
def held_out_loss(network: torch.nn.Module, path: Path, length: int, rows: int = 24) -> float:
    """Return the loss over the first windows of the held-out file."""
    tokens = np.load(path, mmap_mode="r")
    rows = min(rows, (len(tokens) - 1) // length)
    losses = []
    for row in range(rows):
        window = np.array(tokens[row * length : (row + 1) * length + 1], dtype=np.int64)
        losses.append(loss_of(network, torch.from_numpy(window)[None]).item())
    return sum(losses) / len(losses)


def optimizers(network: Network, plan: Plan) -> list[torch.optim.Optimizer]:
    """Make Muon for the layers' matrices and AdamW for the rest."""
    matrices = [p for n, p in network.named_parameters() if p.dim() == 2 and not n.startswith("token_embd")]
    rest = [p for n, p in network.named_parameters() if p.dim() != 2 or n.startswith("token_embd")]
    muon = torch.optim.Muon(matrices, lr=plan.rate, weight_decay=0.05, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    adam = torch.optim.AdamW(rest, lr=plan.embed_rate, betas=(0.9, 0.97), weight_decay=0.01)
    return [muon, adam]


def save(path: Path, network: Network, opts: list[torch.optim.Optimizer], record: dict[str, float]) -> None:
    """Write a checkpoint; the rename makes it whole or absent."""
    state = {
        "shape": network.shape.as_dict(),
        "network": network.state_dict(),
        "optimizers": [opt.state_dict() for opt in opts],
        "record": record,
    }
    torch.save(state, path.with_suffix(".part"))
    path.with_suffix(".part").replace(path)


def load_network(path: Path) -> tuple[Network, dict[str, float]]:
    """Return the network of a checkpoint and its record."""
    state = torch.load(path, weights_only=True)
    network = Network(Shape(**state["shape"]))
    network.load_state_dict(state["network"])
    return network, state["record"]


class Team:
    """Workers that each take a share of a batch and add up their gradients once per step.

    One thread per worker and one meeting per step stays fast beside other programs; threads that meet in every
    operation do not. Worker 0 keeps the clock, the log and the checkpoint.
    """

    def __init__(self, rank: int, workers: int, meeting: Path) -> None:
        self.rank, self.workers = rank, workers
        torch.set_num_threads(1)
        keep_memory()
        if workers > 1:
            dist.init_process_group("gloo", init_method=f"file://{meeting.absolute()}", rank=rank, world_size=workers)

    def meet(self, network: Network, loss: float, seconds: float) -> tuple[float, float]:
        """Average the gradients; return the mean loss and worker 0's clock, the same in every worker."""
        if self.workers == 1:
            return loss, seconds
        grads = [p.grad for p in network.parameters() if p.grad is not None]
        clock = seconds * self.workers if self.rank == 0 else 0.0
        flat = torch.cat([*(g.flatten() for g in grads), torch.tensor([loss, clock])])
        dist.all_reduce(flat)
        flat /= self.workers
        for grad, part in zip(grads, flat[:-2].split([g.numel() for g in grads]), strict=True):
            grad.copy_(part.view_as(grad))
        return float(flat[-2]), float(flat[-1])


def train(work: Path, shape: Shape, plan: Plan) -> dict[str, float]:
    """Train until the budget is spent; return the record: steps, tokens, seconds, losses."""
    meeting = work / "meeting"
    meeting.unlink(missing_ok=True)
    torch.multiprocessing.spawn(_work, (plan, shape, work, meeting), nprocs=plan.workers)
    return torch.load(work / "checkpoint.pt", weights_only=True)["record"]


def _work(rank: int, plan: Plan, shape: Shape, work: Path, meeting: Path) -> None:
    team = Team(rank, plan.workers, meeting)
    torch.manual_seed(plan.seed)
    network = Network(shape)
    opts = optimizers(network, plan)
    record: dict[str, float] = {"steps": 0, "tokens": 0, "seconds": 0.0}
    checkpoint = work / "checkpoint.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        network.load_state_dict(state["network"])
        for opt, saved in zip(opts, state["optimizers"], strict=True):
            opt.load_state_dict(saved)
        record = state["record"]
    batches = Batches(work / "train.npy", 1000 * plan.seed + int(record["steps"]) * plan.workers + rank)
    mean, last_save, budget = math.nan, time.monotonic(), plan.minutes * 60
    clock = record["seconds"]  # this worker's own; the record holds worker 0's, as of the last meeting
    parent = os.getppid()
    while record["seconds"] < budget and os.getppid() == parent:
        begun = time.process_time()
        spent = record["seconds"] / budget
        length = plan.length_at(spent)
        for opt, peak in zip(opts, (plan.rate, plan.embed_rate), strict=True):
            opt.param_groups[0]["lr"] = peak * plan.rate_at(spent)
        rows = max(1, plan.batch_tokens // plan.workers // length)
        ids = batches.draw(rows, length)
        if length < shape.context or record["steps"] % 2:
            loss = weighted_loss(network, ids, batches.rare, plan.weight_at(spent))
        else:  # whole windows of several documents: far positions, and what to pass over in them
            loss = loss_of(network, ids)
        loss.backward()
        total, record["seconds"] = team.meet(network, loss.item(), clock)
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        for opt in opts:
            opt.step()
            opt.zero_grad()
        mean = total if math.isnan(mean) else 0.98 * mean + 0.02 * total
        record["steps"] += 1
        record["tokens"] += plan.batch_tokens
        record["train_loss"] = mean
        clock += time.process_time() - begun
        if rank == 0 and record["steps"] % 50 == 0:
            _log(work, record)
        if rank == 0 and time.monotonic() - last_save > plan.save_every:
            save(checkpoint, network, opts, record)
            last_save = time.monotonic()
    if rank == 0:
        record["held_out_512"] = held_out_loss(network, work / "held_out.npy", 512, 80)
        record["held_out_2048"] = held_out_loss(network, work / "held_out.npy", 2048, 20)
        save(checkpoint, network, opts, record)
        _log(work, record)


def _log(work: Path, record: dict[str, float]) -> None:
    with (work / "train.log").open("a", encoding="utf-8") as log:
        log.write(json.dumps({name: round(value, 4) for name, value in record.items()}) + "\n")
