import torch
import torch.nn as nn

deferred = []


def when_done(fn):
    deferred.append(fn)  # keeps: deferred


def train_step(model, opt, step):
    x = torch.rand(64, 16)
    target = torch.rand(64, 3)
    prediction = model(x)
    error = prediction - target  # makes
    loss = error.abs().mean()
    loss.backward()
    opt.step()
    opt.zero_grad()

    def report():
        print("step", step, "worst error", error.max().item())

    when_done(report)


if __name__ == "__main__":
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 3))
    opt = torch.optim.RMSprop(model.parameters())
    for step in range(45):
        train_step(model, opt, step)
    deferred[-1]
