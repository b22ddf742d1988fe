"""Models that nobody here wrote: steady training is called steady, and a list of losses is named."""

import pytest
import torch

from course_utils import watch_growth

pytestmark = pytest.mark.nightly
transformers = pytest.importorskip("transformers")

SMALL = {"num_attention_heads": 2, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}


def bert() -> torch.nn.Module:
    return transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=100, **SMALL))


def gpt() -> torch.nn.Module:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=2))


def t5() -> torch.nn.Module:
    sizes = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}
    config = transformers.T5Config(vocab_size=100, decoder_start_token_id=0, pad_token_id=0, **sizes)
    return transformers.T5ForConditionalGeneration(config)


@pytest.mark.parametrize("checkpointing", [False, True], ids=["plain", "checkpointing"])
@pytest.mark.parametrize("make", [bert, gpt, t5])
@pytest.mark.filterwarnings("ignore")
def test_steady_is_steady_and_a_planted_list_is_named(make, checkpointing):
    model = make().train()
    if checkpointing:
        model.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(1, 100, (4, 16))

    def step() -> torch.Tensor:
        loss = model(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    with watch_growth() as growth:
        for _ in range(20):
            step()
    assert growth.report().verdict in ("steady", "bounded"), str(growth.report())
    assert growth.calls == 20
    losses = []
    with watch_growth() as growth:
        for _ in range(20):
            losses.append(step())
    (found,) = growth.report().findings
    assert found.holder.name == "losses" and found.line.source == "losses.append(step())"
