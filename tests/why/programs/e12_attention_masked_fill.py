# modified_in_place/inplace_operation
# code: attn = attn.masked_fill\(~?mask, 0.0\)
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        attn = torch.softmax(q @ k.transpose(-2, -1), dim=-1)  # made
        attn.masked_fill_(mask, 0.0)  # edited
        return attn @ v


layer = Attention(4)
mask = torch.ones(5, 5).triu(1).bool()
out = layer(torch.randn(2, 5, 4), mask)
loss = out.square().mean()
loss.backward()  # needed
