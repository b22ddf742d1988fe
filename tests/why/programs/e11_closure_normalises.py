# modified_in_place/inplace_operation
# code: a = a / norm
import torch


def make_loss(weight):
    def loss_of(data):
        a = (data @ weight).sqrt()  # made
        norm = a.sum()
        a /= norm  # edited
        return (a * data.sum()).mean()

    return loss_of


weight = torch.rand(3, 3, requires_grad=True)
loss_of = make_loss(weight)
loss_of(torch.rand(2, 3)).backward()  # needed
