# does_not_require_grad/cut_history
import torch
from torch import nn


class LitModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 1)

    def shared_step(self, batch):
        x, y = batch
        y_hat = self.net(x).squeeze(-1)
        loss = nn.functional.mse_loss(y_hat, y)
        return {"loss": loss.detach(), "n": len(y)}  # cut

    def training_step(self, batch):
        return self.shared_step(batch)["loss"]


class Trainer:
    def fit(self, model, batches):
        opt = torch.optim.Adam(model.parameters())
        for batch in batches:
            loss = model.training_step(batch)
            opt.zero_grad()
            loss.backward()  # needed
            opt.step()


Trainer().fit(LitModel(), [(torch.randn(4, 3), torch.randn(4))])
