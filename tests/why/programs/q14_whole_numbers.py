# /whole_numbers
import torch

from course_utils import why

levels = torch.tensor([1, 2, 3])  # made
loss = (levels * 0.5).sum()
reason = why(levels)
