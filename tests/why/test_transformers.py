"""Models that nobody here wrote, with one planted mistake each: the planted line is named."""

import inspect

import pytest
import torch

from course_utils import watch_why, why
from course_utils.base.user_code import count_as_users
from tests.why.drive import line_in

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]
transformers = pytest.importorskip("transformers")
count_as_users(__file__)

SMALL = {"num_attention_heads": 2, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}


def bert() -> tuple[torch.nn.Module, torch.nn.Module, torch.Tensor]:
    model = transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=100, **SMALL))
    layers = model.bert.encoder.layer
    return model, layers[1].output, layers[0].attention.self.query.weight


def gpt() -> tuple[torch.nn.Module, torch.nn.Module, torch.Tensor]:
    config = transformers.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=2, tie_word_embeddings=False)
    model = transformers.GPT2LMHeadModel(config)
    return model, model.transformer.ln_f, model.transformer.wte.weight


def t5() -> tuple[torch.nn.Module, torch.nn.Module, torch.Tensor]:
    sizes = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}
    config = transformers.T5Config(vocab_size=100, decoder_start_token_id=0, pad_token_id=0, **sizes)
    model = transformers.T5ForConditionalGeneration(config)
    return model, model.decoder.final_layer_norm, model.decoder.block[0].layer[0].SelfAttention.q.weight


def edit(module, args, out):
    args[0].mul_(0.5)


def cut(module, args, out):
    return out.detach()


def spoil(module, args, out):
    return out / torch.zeros(())


def loss_of(model: torch.nn.Module) -> torch.Tensor:
    tokens = torch.randint(1, 100, (4, 16))
    return model(input_ids=tokens, labels=tokens).loss


def line_of(hook) -> int:
    return inspect.getsourcelines(hook)[1] + 1


@pytest.fixture(params=[bert, gpt, t5], ids=["bert", "gpt2", "t5"])
def planted(request):
    torch.manual_seed(0)
    model, layer, before = request.param()
    return model.train(), layer, before


def test_a_planted_edit(planted):
    model, layer, _ = planted
    layer.register_forward_hook(edit)
    with watch_why(), pytest.raises(RuntimeError) as raised:
        loss_of(model).backward()
    reason = why(raised.value)
    assert reason.page == "modified_in_place" and line_in(reason, "edited") == line_of(edit)


def test_a_planted_detach(planted):
    model, layer, before = planted
    layer.register_forward_hook(cut)
    with watch_why():
        loss = loss_of(model)
        loss.backward()
    assert before.grad is None
    reason = why(before, loss)
    assert reason.cause == "cut_history" and line_in(reason, "cut") == line_of(cut)


def test_a_planted_nan(planted):
    model, layer, _ = planted
    layer.register_forward_hook(spoil)
    with watch_why():
        loss = loss_of(model)
    reason = why(loss)
    assert reason.cause == "made_forward" and line_in(reason, "made") == line_of(spoil)


def test_a_healthy_model_is_called_healthy(planted):
    model, *_ = planted
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
    assert why(next(model.parameters())).cause == "nothing_wrong"
