# /unused
import torch
from torch import nn

from course_utils import why


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(5, 3)
        self.char = nn.Embedding(5, 3)
        self.out = nn.Linear(3, 2)

    def forward(self, w, c):
        return self.out(self.word(w))


tagger = Tagger()
loss = tagger(torch.tensor([1]), torch.tensor([2])).sum()
loss.backward()
reason = why(tagger.char.weight)
