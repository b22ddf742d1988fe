"""The network of lesson 06: three ways to close a branch, one result."""

import os

import pytest
import torch

from course_utils.two_branches import CLOSE, TwoBranchNet, in_two_processes, parallel_steps


@pytest.fixture
def net():
    torch.manual_seed(0)
    return TwoBranchNet((2, 3))


@pytest.fixture
def images():
    return torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("use_a", [True, False])
@pytest.mark.parametrize("close", CLOSE)
def test_every_way_gives_the_logits_of_zeros_in_the_closed_half(net, images, close, use_a):
    opened = (net.branch_a if use_a else net.branch_b)(images)
    closed = torch.zeros_like(opened)
    expected = net.head(torch.cat((opened, closed) if use_a else (closed, opened), dim=1))
    assert torch.equal(net(images, use_a, close), expected)


@pytest.mark.parametrize(("close", "calls"), [("multiply", 2), ("no_grad", 2), ("skip", 1)])
def test_only_skip_leaves_the_closed_branch_uncalled(net, images, close, calls):
    seen = []
    for branch in (net.branch_a, net.branch_b):
        branch.register_forward_hook(lambda *_: seen.append(1))
    net(images, False, close)
    assert len(seen) == calls


@pytest.mark.parametrize("use_a", [True, False])
@pytest.mark.parametrize("close", CLOSE)
def test_the_closed_branch_gets_zeros_when_multiplied_and_none_otherwise(net, images, close, use_a):
    net(images, use_a, close).sum().backward()
    for parameter in (net.branch_b if use_a else net.branch_a).parameters():
        if close == "multiply":
            assert parameter.grad is not None and not parameter.grad.any()
        else:
            assert parameter.grad is None
    assert all(parameter.grad.any() for parameter in (net.branch_a if use_a else net.branch_b).parameters())


@pytest.mark.parametrize("close", CLOSE)
def test_nothing_is_recorded_when_the_caller_records_nothing(net, images, close):
    with torch.no_grad():
        assert not net(images, True, close).requires_grad
        assert not torch.is_grad_enabled()


def test_an_unknown_way_is_refused_and_the_ways_are_named(net, images):
    with pytest.raises(ValueError, match="multiply, no_grad, skip"):
        net(images, True, "close")


@pytest.mark.slow  # starts a process
def test_two_processes_refuse_a_skipped_branch_at_the_second_step_unless_told_to_look_for_it():
    before = os.environ.get("GLOO_SOCKET_IFNAME")
    settings = [((True, True), False), ((True, True), True), ((True, False), True)]
    (first, error), (skipped, *_), (apart, *_) = in_two_processes(parallel_steps, settings)
    torch.manual_seed(0)
    net, images = TwoBranchNet((2, 3)), torch.randn(4, 3, 32, 32)
    net(images, False).sum().backward()
    assert (first.sent_bytes, first.error) == (0, "") and error.error.startswith("Expected to have finished reduction")
    assert skipped.gradient is None
    assert skipped.sent_bytes == apart.sent_bytes == sum(parameter.nbytes for parameter in net.parameters())
    torch.testing.assert_close(apart.gradient, net.branch_b[0].weight.grad / 2)  # the average of nothing and this
    assert os.environ.get("GLOO_SOCKET_IFNAME") == before and not torch.distributed.is_initialized()


@pytest.mark.slow
def test_an_error_here_is_raised_when_the_other_process_has_ended():
    with pytest.raises(ZeroDivisionError):
        in_two_processes(divmod, [(1, 0)])
    assert not torch.distributed.is_initialized()
