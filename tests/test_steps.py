"""Bytes step by step: the most of them within each step of a loop."""

import torch

from course_utils.memory.loops import bytes_alive, peak_bytes


def growing(kept):
    for _ in range(3):
        kept.append(torch.ones(10) + 1)  # 40 bytes that stay, on top of 40 that go
        yield


def test_a_peak_counts_what_is_gone_by_the_end_of_its_step():
    assert bytes_alive(growing([])) == [40, 80, 120]
    assert peak_bytes(growing([])) == [80, 120, 160]


def test_what_comes_after_the_last_step_is_no_step():
    def ends_late():
        yield
        torch.ones(1000)

    assert peak_bytes(ends_late()) == [0]
    assert peak_bytes([]) == []


def test_what_the_loop_yields_is_not_kept():
    assert peak_bytes(torch.ones(10) for _ in range(3)) == [40, 40, 40]
