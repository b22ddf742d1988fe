"""A metric object gathers what it is given, and nothing else runs."""

import torch
from minitrainer import Metric

metric = Metric()
for _ in range(60):
    values = torch.rand(100) * 2
    metric.update(values)  # line
# says: \(\S+:LINE\) keeps a tensor of every call: 400 B per call
# says: call `metric.reset\(\)`
# never: deque
# verdict: growing
