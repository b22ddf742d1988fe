"""What closing a branch saves of a training step: ``python -m benchmarks.gated_step``.

The two-branch network of lesson 06, one branch closed in each of the lesson's three ways, batch 64. The steps take
turns in one process; a time is the median over the rounds, as a multiple of the step that multiplies by 0.
"""

import argparse
import sys

import torch
from torch import nn

from course_utils.measure.compare import compare
from course_utils.two_branches import TwoBranchNet

WAYS = ("multiply", "no_grad", "skip")
# What lesson 06 says: no_grad saves the closed branch's backward pass, skip its forward pass, too. On a large GPU the
# start of kernels is most of so small a step: an H200 (PyTorch 2.11) took 0.86 and 0.80.
TARGETS = {"cpu": {"no_grad": 0.95, "skip": 0.75}, "cuda": {"no_grad": 0.95, "skip": 0.9}}


def main() -> int:
    """Prints the table; returns 1 where a way does not save what the lesson says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device, rounds = torch.device(options.device), options.rounds
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = TwoBranchNet().to(device)
    images, labels = torch.randn(64, 3, 32, 32, device=device), torch.randint(10, (64,), device=device)

    def step(close: str) -> None:
        nn.functional.cross_entropy(net(images, True, close), labels).backward()

    costs = compare(
        {close: lambda close=close: step(close) for close in WAYS},
        net,
        images,
        labels,
        before=net.zero_grad,
        rounds=rounds,
    )
    print(f"torch {torch.__version__}, {device.type}, one thread, {rounds} rounds\n")
    print("way       MFLOP of a step   time / multiply   target")
    missed = False
    for close in WAYS:
        cost = costs[close]
        target = TARGETS[device.type].get(close, 1.0)
        missed |= cost.time_ratio > target
        print(f"{close:8}  {cost.flops / 1e6:15.1f}   {cost.time_ratio:15.2f}   at most {target:.2f}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
