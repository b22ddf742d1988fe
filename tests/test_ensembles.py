"""Loop and one call compute the same; what is counted and timed is what it is said to be."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course_utils import ensembles
from course_utils.ensembles import count_kernels, gain_grid, mlps, times_faster, ways_to_differentiate, ways_to_predict
from course_utils.together import gap_to_alone, loss_curve, train_together


@pytest.fixture
def models():
    torch.manual_seed(0)
    return [model.double() for model in mlps(5, 3, 4, 2)]


def test_the_models_have_one_shape_and_weights_of_their_own(models):
    assert [tuple(p.shape) for p in models[0].parameters()] == [(4, 3), (4,), (2, 4), (2,)]
    assert not torch.equal(models[0][0].weight, models[1][0].weight)
    assert [type(layer) for layer in models[0]] == [nn.Linear, nn.ReLU, nn.Linear]


@pytest.mark.parametrize("rows", [4, 5], ids=["fewer rows than models", "as many rows as models"])
def test_both_ways_predict_the_same_for_one_batch(models, rows):
    x = torch.randn(rows, 3, dtype=torch.float64)
    results = [run() for run in ways_to_predict(models, x).values()]
    expected = torch.stack([model(x) for model in models]).detach()
    assert all(torch.allclose(result, expected) and not result.requires_grad for result in results)
    assert all(parameter.grad is None for model in models for parameter in model.parameters())


def test_both_ways_predict_the_same_for_a_batch_each(models):
    xs = torch.randn(5, 4, 3, dtype=torch.float64)
    ways = ways_to_predict(models, xs, each=True, record=True)
    expected = torch.stack([model(x) for model, x in zip(models, xs, strict=True)])
    assert all(torch.allclose(run(), expected) and run().requires_grad for run in ways.values())


def test_models_with_statistics_of_their_own_are_told_apart():
    normed = [nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).eval() for _ in range(3)]
    for number, model in enumerate(normed):
        model[1].running_mean += number
    loop, one_call = (run() for run in ways_to_predict(normed, torch.randn(4, 3)).values())
    assert torch.allclose(loop, one_call, atol=1e-6)  # float32, added in another order; so it is below


def test_chunks_give_the_same_and_what_is_stacked_is_a_copy(models):
    x, expected = torch.randn(4, 3), torch.stack([model.float()(torch.zeros(4, 3)) for model in models])
    whole, chunked = ensembles.all_at_once(models), ensembles.all_at_once(models, chunk_size=2)
    assert torch.allclose(whole(x), chunked(x), atol=1e-6)
    for model in models:
        nn.init.zeros_(model[2].weight)
    assert torch.allclose(whole(torch.zeros(4, 3)), expected, atol=1e-6)


def test_both_ways_differentiate_the_same_and_fill_no_grad(models):
    model, x, y = models[0], torch.randn(6, 3, dtype=torch.float64), torch.arange(6) % 2
    loop, one_call = (run() for run in ways_to_differentiate(model, F.cross_entropy, x, y).values())
    assert list(loop) == list(one_call) == [name for name, _ in model.named_parameters()]
    assert all(torch.allclose(loop[name], one_call[name]) for name in loop)
    assert all(parameter.grad is None for parameter in model.parameters())
    F.cross_entropy(model(x), y).backward()
    for name, parameter in model.named_parameters():  # the oracle: the mean loss has the mean gradient
        assert torch.allclose(one_call[name].mean(0), parameter.grad)


def test_what_computes_is_counted_once_and_a_view_is_not():
    x = torch.ones(3)
    assert count_kernels(lambda: None) == 0
    assert count_kernels(lambda: x + 1) == 1
    assert count_kernels(lambda: (x + 1).view(3, 1).exp()) == 2
    assert count_kernels(lambda: x.unsqueeze(0).expand(4, 3)[1:].detach()) == 0
    assert count_kernels(lambda: torch.zeros(3).copy_(x)) == 2
    assert count_kernels(lambda: torch.empty(3)) == 0


def test_a_loop_sends_operations_for_each_model_and_one_call_does_not():
    sent = {}
    for number in (1, 3):
        for name, run in ways_to_predict(mlps(number, 3, 4, 2), torch.randn(5, 3)).items():
            sent[name, number] = count_kernels(run)
    per_model = (sent["loop", 3] - sent["loop", 1]) / 2
    assert sent["loop", 1] == per_model + 1  # one to stack
    assert sent["vmap", 3] == sent["vmap", 1]


def alone(model, x, y, lr, steps):
    model, losses = copy.deepcopy(model), []
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(steps + 1):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    return losses


def test_the_sum_of_losses_trains_the_first_model_as_if_alone_and_leaves_all_as_they_were(models):
    x, y = torch.randn(7, 3, dtype=torch.float64), torch.arange(7) % 2
    before = [parameter.clone() for model in models for parameter in model.parameters()]
    assert loss_curve(models, x, y, lr=0.3, steps=4) == pytest.approx(alone(models[0], x, y, 0.3, 4))
    mean = loss_curve(models, x, y, lr=0.3, steps=4, together=torch.mean)
    assert mean == pytest.approx(alone(models[0], x, y, 0.3 / 5, 4)), "the step is divided by the number of models"
    after = [parameter for model in models for parameter in model.parameters()]
    assert all(torch.equal(a, b) and a.grad is None for a, b in zip(after, before, strict=True))


def test_one_row_each_learns_from_the_first_row_alone(models):
    x, y = torch.randn(5, 3, dtype=torch.float64), torch.arange(5) % 2
    curve = loss_curve(models, x, y, lr=0.3, steps=1, one_row_each=True)
    stepped = copy.deepcopy(models[0])
    F.cross_entropy(stepped(x[:1]), y[:1]).backward()
    with torch.no_grad():
        for parameter in stepped.parameters():
            parameter -= 0.3 * parameter.grad
    assert curve[1] == pytest.approx(F.cross_entropy(stepped(x), y).item())


def test_one_adam_for_all_trains_each_model_as_its_own_would(models):
    x, y = torch.randn(7, 3, dtype=torch.float64), torch.arange(7) % 2
    expected = []
    for model in map(copy.deepcopy, models):
        adam = torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(6):
            adam.zero_grad()
            F.cross_entropy(model(x), y).backward()
            adam.step()
        expected.append(model(x))
    train_together(models, x, y, steps=6, lr=0.05)
    assert all(torch.allclose(model(x), right) for model, right in zip(models, expected, strict=True))
    assert all(parameter.grad is None for model in models for parameter in model.parameters())


def test_copies_stay_alike_where_all_draw_the_same_masks():
    for randomness, alike in (("same", True), ("different", False)):
        (model,) = mlps(1, 3, 8, 2)
        twins = [nn.Sequential(copy.deepcopy(model), nn.Dropout(0.5)) for _ in range(2)]
        train_together(twins, torch.randn(7, 3), torch.arange(7) % 2, steps=3, randomness=randomness)
        assert torch.equal(twins[0][0][0].weight, twins[1][0][0].weight) == alike


@pytest.mark.slow
def test_optimizers_that_look_at_single_numbers_keep_the_models_apart(models):
    x, y = torch.randn(7, 3, dtype=torch.float64), torch.arange(7) % 2
    before = [parameter.clone() for model in models for parameter in model.parameters()]
    assert gap_to_alone(torch.optim.Adam, models, x, y, lr=0.01) < 1e-9
    assert gap_to_alone(torch.optim.LBFGS, models, x, y, lr=0.1) > 1e-3
    after = [parameter for model in models for parameter in model.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(after, before, strict=True))
    assert all(parameter.grad is None for parameter in after)


def test_the_ratio_is_the_first_over_the_second(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.thread_time", lambda: now[0])
    monkeypatch.setattr("course_utils.measure.perf_counter", lambda: now[0])  # where there is a GPU

    def takes(seconds):
        now[0] += seconds

    assert times_faster({"slow": lambda: takes(6.0), "fast": lambda: takes(2.0)}) == 3.0


def test_times_are_medians_in_milliseconds(monkeypatch):
    taken = iter([1.0, 2.0, 5.0])
    monkeypatch.setattr(ensembles, "_timed", lambda ways, *_: {name: list(taken) for name in ways})
    assert ensembles.milliseconds({"one": lambda: None}) == {"one": 2000.0}


@pytest.mark.parametrize(
    ("ways", "timing", "said"),
    [
        ({}, {}, "got 0 ways"),
        ({"one": lambda: 1}, {}, "got 1 ways"),
        (dict.fromkeys("ab", lambda: 1), {"rounds": 0}, "rounds=0"),
    ],
)
def test_what_cannot_be_compared_is_refused(ways, timing, said):
    with pytest.raises(ValueError, match=said):
        times_faster(ways, **timing)


def test_timing_leaves_the_number_of_threads_as_it_was():
    before = torch.get_num_threads()
    times_faster({"a": lambda: torch.ones(2), "b": lambda: torch.ones(2)}, rounds=1)
    loss_curve(mlps(1, 2, 2), torch.ones(3, 2), torch.tensor([0, 1, 0]), lr=0.1, steps=1)
    with pytest.raises(RuntimeError):
        loss_curve(mlps(1, 2, 2), torch.ones(3, 5), torch.tensor([0, 1, 0]), lr=0.1, steps=1)
    assert torch.get_num_threads() == before


def test_the_grid_has_a_row_for_each_count_and_a_number_for_each_width():
    grid = gain_grid((1, 2), (2, 3, 4), rounds=1)
    assert [len(row) for row in grid] == [3, 3]
    assert all(ratio > 0 for row in grid for ratio in row)
