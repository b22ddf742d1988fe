"""Figures predicted on the CPU and on ``meta`` against the allocator of a CUDA device. Needs one; prints its table.

``pytest -m gpu -s tests/gpu`` shows, for each workload and phase, what was predicted and what the card says.
"""

import threading

import pytest
import torch

from course_utils.memory import MemoryTracker
from tests.memory_workloads import SECTION_4

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]

# What reads a number back cannot run on meta; checkpoint there needs no random states of a device.
NEEDS_VALUES = {"loss_list_items"}


def requested() -> int:
    """Bytes alive as asked for, without the workspaces that cuBLAS keeps."""
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    return torch.cuda.memory_stats()["requested_bytes.all.current"]


def on_the_card(name):
    """The card's bytes above the start at the end of every phase, and a tracker's of the same run."""
    torch.manual_seed(0)
    SECTION_4[name]("cuda").run(_NoPhase)  # handles and workspaces that libraries keep from their first use
    work = SECTION_4[name]("cuda")
    start, marks = requested(), []
    with MemoryTracker(*work.known, device="cuda") as mem:

        class Phase(_NoPhase):
            def __enter__(self):
                self.phase = mem.phase(self.name)
                self.phase.__enter__()

            def __exit__(self, *error):
                self.phase.__exit__(*error)
                marks.append(requested() - start)

        kept = work.run(Phase)
    del kept
    return marks, mem


class _NoPhase:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass


@pytest.mark.parametrize("name", SECTION_4)
def test_card_holds_what_was_predicted_without_it(name):
    device = "cpu" if name in NEEDS_VALUES else "meta"
    torch.manual_seed(0)
    work = SECTION_4[name](device)
    with MemoryTracker(*work.known, device=device) as mem:
        kept = work.run(mem.phase)
    del kept
    marks, _ = on_the_card(name)
    card = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    for phase, measured in zip(mem.phases, marks, strict=True):
        print(f"{name:24}{phase.name:14}predicted {phase.end:>12} measured {measured:>12}  {card}")
    assert [phase.end for phase in mem.phases] == marks


@pytest.mark.parametrize("name", SECTION_4)
def test_tracker_on_the_card_counts_what_its_allocator_counts(name):
    marks, mem = on_the_card(name)
    assert [phase.end for phase in mem.phases] == marks
    assert mem.report().scratch is not None and mem.report().scratch >= 0


def test_backward_is_seen_though_it_runs_in_another_thread():
    threads = set()
    x = torch.ones(1000, device="cuda", requires_grad=True)
    with MemoryTracker(x) as mem:
        y = x.exp()
        y.register_hook(lambda gradient: threads.add(threading.get_ident()))
        y.sum().backward()
    assert threads and threading.get_ident() not in threads
    assert any(event.in_backward and event.delta > 0 for event in mem.events)
    assert mem.report().categories["gradients"] == x.grad.nbytes
