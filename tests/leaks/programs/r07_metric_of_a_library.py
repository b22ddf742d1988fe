"""A library's metric is never reset."""

import torch
from minitrainer import Metric
from torch import nn


class Evaluation:
    def __init__(self):
        self.model, self.val_metric = nn.Linear(16, 32), Metric()

    def run(self):
        with torch.no_grad():
            for _ in range(15):
                out = self.model(torch.randn(8, 16))
                self.val_metric.update(out)  # line


evaluation = Evaluation()
for _ in range(3):
    evaluation.run()
# says: `self.val_metric.update\(out\)` \(\S+:LINE\) keeps a tensor of every call: 1.0 KiB per call
# says: call `self.val_metric.reset\(\)`
# never: deque
# verdict: growing
