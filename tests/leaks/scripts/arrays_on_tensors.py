"""Predictions as NumPy arrays, kept for the whole run."""

import numpy as np
import torch

model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh())
model.eval()
all_preds, all_means = [], []
for _step in range(60):
    with torch.no_grad():
        pred = model(torch.randn(4, 64)).cpu().numpy()  # makes
    all_preds.append(pred)  # keeps: all_preds
    all_means.append(float(pred.mean()))
print(np.concatenate(all_preds).shape)
