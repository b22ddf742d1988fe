"""Right answers to the exercises of lesson 00, written otherwise than the course's own."""

# %%

# %% double: a 0-dim factor in the dtype of x
def double(x):
    return x * torch.tensor(2.0, dtype=x.dtype)
