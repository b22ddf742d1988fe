"""log.debug with tensors as args; a MemoryHandler buffers the records."""

import logging
import logging.handlers
import torch
from torch import nn

log = logging.Logger("train")
target = logging.NullHandler()
handler = logging.handlers.MemoryHandler(capacity=100000, flushLevel=logging.ERROR, target=target)
log.addHandler(handler)


def make_model():
    return nn.Sequential(nn.Linear(10, 100), nn.GELU(), nn.Linear(100, 100), nn.GELU(), nn.Linear(100, 1))


def train_epoch(model, optimizer, epoch):
    for i in range(20):
        x = torch.randn(8, 10)
        y = x.sum(1, keepdim=True)
        pred = model(x)
        loss = ((pred - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()  # makes
        norm = [p.grad for p in model.parameters()]
        optimizer.step()
        log.debug("epoch %d step %d loss %s grads %s", epoch, i, loss, norm)  # keeps: handler.buffer


def main():
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(4):
        train_epoch(model, optimizer, epoch)
        log.info("epoch %d done", epoch)


main()
