import torch
import torch.nn as nn


class CharRNN(nn.Module):
    def __init__(self, vocab, hidden=48):
        super().__init__()
        self.hidden_state = None
        self.emb = nn.Embedding(vocab, 16)
        self.gru = nn.GRU(16, hidden, batch_first=True)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, tokens):
        e = self.emb(tokens)
        y, self.hidden_state = self.gru(e, self.hidden_state)  # makes # keeps: self.hidden_state
        return self.out(y)


def train(model, steps):
    opt = torch.optim.SGD(model.parameters(), lr=0.0)
    loss_fn = nn.CrossEntropyLoss()
    for step in range(steps):
        tokens = torch.randint(0, 30, (4, 12))
        logits = model(tokens)
        loss = loss_fn(logits.reshape(-1, 30), tokens.reshape(-1))
        opt.zero_grad()
        loss.backward(retain_graph=True)
        if step % 10 == 0:
            print(step, f"{loss.item():.1f}")


train(CharRNN(30), 40)
