"""Runs a drill's program and reads the answers off it (``answers``)."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable

import torch

from course_utils.drills import read_records, read_work
from course_utils.drills.programs import Program
from course_utils.drills.statements import Answers


def answers(topic: str, program: Program) -> Answers:
    """What PyTorch does: the right answer to each question of the program.

    The program runs in a thread of its own, where grad mode is on and no other mode is active, with float32 as default
    dtype and a fixed seed. The caller's modes, default dtype and random state stay as they are.

    Raises:
        Exception: the program raised where it should not; a bug of the course.
    """
    found: Answers = {}
    failed: list[BaseException] = []

    def work() -> None:
        try:
            found.update(READERS[topic](program))
        except BaseException as error:
            failed.append(error)

    before = torch.get_default_dtype()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(), torch.autograd.set_detect_anomaly(False):
        warnings.simplefilter("ignore")  # reading `.grad` of a tensor that is no leaf warns; here it is the question
        torch.default_generator.manual_seed(0)
        torch.set_default_dtype(torch.float32)
        try:
            thread = threading.Thread(target=work, name="drill", daemon=True)
            thread.start()
            thread.join()
        finally:
            torch.set_default_dtype(before)
    if failed:
        raise failed[0]
    return found


READERS: dict[str, Callable[[Program], Answers]] = {
    "flags": read_records.flags,
    "leaves": read_records.leaves,
    "modes": read_records.modes,
    "edits": read_records.edits,
    "gates": read_work.gates,
    "hooks": read_work.hooks,
    "functions": read_work.functions,
    "scale": read_work.scale,
    "in_dims": read_work.in_dims,
}
