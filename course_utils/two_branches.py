"""The network of lesson 06: two convolutional branches, of which a gate closes one (``TwoBranchNet``); and what becomes
of the closed one's gradient where two processes train it (``in_two_processes``, ``parallel_steps``).
"""

import os
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from course_utils.base import explain

CLOSE = ("multiply", "no_grad", "skip")
CLASSES = 10


class TwoBranchNet(nn.Module):
    """Classifies images of shape (batch, 3, 32, 32) by the joined features of two branches; a gate closes one of them.

    The first half of the features is always branch a's, the second half branch b's. The closed one's half is zeros.

    Args:
        channels: of the first and of the second convolution of each branch.

    Attributes:
        branch_a: (batch, 3, 32, 32) to (batch, channels[1], 4, 4).
        branch_b: the same, with weights of its own.
        head: joined features to logits of ten classes.
    """

    def __init__(self, channels: tuple[int, int] = (12, 24)) -> None:
        super().__init__()
        self.branch_a = _branch(*channels)
        self.branch_b = _branch(*channels)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(2 * channels[1] * 4 * 4, CLASSES))

    def forward(self, images: Tensor, use_a: bool, close: str = "skip") -> Tensor:
        """The logits, shape (batch, 10).

        Args:
            images: shape (batch, 3, 32, 32).
            use_a: True closes branch b, False closes branch a.
            close: how. ``"multiply"`` runs both and multiplies the closed one's output by 0; ``"no_grad"`` does so too,
                with the closed one's forward pass under ``no_grad``; ``"skip"`` does not run it.

        Raises:
            ValueError: ``close`` is none of the three.
        """
        if close == "multiply":
            halves = self.branch_a(images) * use_a, self.branch_b(images) * (not use_a)
        elif close == "no_grad":
            recording = torch.is_grad_enabled()
            with torch.set_grad_enabled(recording and use_a):
                a = self.branch_a(images)
            with torch.set_grad_enabled(recording and not use_a):
                b = self.branch_b(images)
            halves = a * use_a, b * (not use_a)
        elif close == "skip":
            opened = self.branch_a(images) if use_a else self.branch_b(images)
            closed = torch.zeros_like(opened)
            halves = (opened, closed) if use_a else (closed, opened)
        else:
            raise ValueError(explain(f"TwoBranchNet was called with close={close!r}.", "one of " + ", ".join(CLOSE)))
        return self.head(torch.cat(halves, dim=1))


def _branch(first: int, second: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, first, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(first, second, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


class StepSeen(NamedTuple):
    """What a process saw of a training step: the closed branch's first gradient, the bytes it sent, an error's text."""

    gradient: Tensor | None
    sent_bytes: int
    error: str


def parallel_steps(gates: tuple[bool, bool], find_unused: bool) -> list[StepSeen]:
    """Two steps of a small net under ``DistributedDataParallel``, which averages gradients over the processes.

    Args:
        gates: for each process whether branch a is open, else b.
        find_unused: ``find_unused_parameters``.

    Returns:
        What was seen in each step, of the branch that is closed in rank 0; the list ends with an error.
    """
    torch.manual_seed(0)
    net, images, sent = TwoBranchNet((2, 3)), torch.randn(4, 3, 32, 32), []

    def noted(group: distributed.ProcessGroup, bucket: distributed.GradBucket) -> torch.futures.Future[Tensor]:
        sent.append(bucket.buffer().nbytes)
        return allreduce_hook(group, bucket)  # what DDP does without a hook: the average over the processes

    parallel = nn.parallel.DistributedDataParallel(net, find_unused_parameters=find_unused)
    parallel.register_comm_hook(distributed.group.WORLD, noted)
    seen: list[StepSeen] = []
    for _ in range(2):
        net.zero_grad()
        sent.clear()
        try:
            parallel(images, gates[distributed.get_rank()]).sum().backward()
        except RuntimeError as error:
            return [*seen, StepSeen(None, 0, str(error))]
        closed = net.branch_b if gates[0] else net.branch_a
        seen.append(StepSeen(next(closed.parameters()).grad, sum(sent), ""))
    return seen


def in_two_processes(function: Callable[..., Any], settings: Iterable[tuple]) -> list[Any]:
    """Runs ``function(*setting)`` for each setting in two processes, which ``torch.distributed`` joins on the CPU.

    Args:
        function: one that a new process can import. Both processes wait for each other, so it raises in both or none.
        settings: what it is called with, one call after the other.

    Returns:
        What it returned here, in rank 0. Rank 1 is a new process and ends with the call.
    """
    settings = list(settings)
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        spawn = multiprocessing.get_context("spawn")
        other = spawn.Process(target=_other, args=(store, function, settings), daemon=True)
        other.start()
        try:
            return _as_rank(0, store, function, settings)
        finally:
            other.join(_PATIENCE.total_seconds())
            other.kill()


_PATIENCE = timedelta(seconds=60)


def _other(store: str, function: Callable[..., Any], settings: list[tuple]) -> None:
    try:
        _as_rank(1, store, function, settings)
    finally:
        os._exit(0)  # an orderly exit meets threads that are still running, and says so on stderr


def _as_rank(rank: int, store: str, function: Callable[..., Any], settings: list[tuple]) -> list[Any]:
    with _loopback():
        meeting = distributed.FileStore(store, 2)
        distributed.init_process_group("gloo", store=meeting, rank=rank, world_size=2, timeout=_PATIENCE)
        try:
            return [function(*setting) for setting in settings]
        finally:
            distributed.destroy_process_group()


@contextmanager
def _loopback() -> Iterator[None]:
    """gloo talks over the machine's own loop: it finds it also where the machine's name leads nowhere."""
    before = os.environ.get("GLOO_SOCKET_IFNAME")
    loop = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
    if loop:
        os.environ["GLOO_SOCKET_IFNAME"] = loop[0]
    try:
        yield
    finally:
        if loop:
            os.environ.pop("GLOO_SOCKET_IFNAME")
        if before is not None:
            os.environ["GLOO_SOCKET_IFNAME"] = before
