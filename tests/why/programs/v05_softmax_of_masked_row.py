# /made_forward
import torch

from course_utils import why

scores = torch.randn(2, 3, requires_grad=True)
mask = torch.tensor([[True, False, True], [True, True, True]])
attn = torch.softmax(scores.masked_fill(mask, float("-inf")), dim=-1)  # made
loss = attn.sum()
reason = why(loss)
