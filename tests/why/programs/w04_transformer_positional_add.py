# modified_in_place/inplace_operation
# code: x = x \+ self.pos
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.norm = nn.LayerNorm(4)
        self.pos = nn.Parameter(torch.zeros(1, 6, 4))
        self.proj = nn.Linear(4, 4)

    def forward(self, tokens):
        x = torch.nn.functional.gelu(self.proj(self.embed(tokens)))
        x = torch.sigmoid(x)  # made
        x += self.pos  # edited
        return self.norm(x)


model = Encoder()
opt = torch.optim.AdamW(model.parameters())
for _ in range(2):
    out = model(torch.randint(0, 10, (2, 6)))
    loss = out.pow(2).mean()
    loss.backward()  # needed
    opt.step()
    opt.zero_grad()
