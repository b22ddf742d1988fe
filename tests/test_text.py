import pytest
import torch
from torch import nn

from course_utils.base.text import aligned, class_name, describe, format_bytes, message_of, plain_text


@pytest.mark.parametrize(
    ("nbytes", "shown"),
    [(1023, "1023 B"), (1024, "1.0 KiB"), (1024**2 - 1, "1.0 MiB"), (5000 * 1024**4, "5000.0 TiB")],
)
def test_bytes_are_shown_in_powers_of_1024(nbytes, shown):
    assert format_bytes(nbytes) == shown


class Rude:
    def __repr__(self):
        raise RuntimeError("no repr")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (torch.ones(2, dtype=torch.bool), "bool[2]"),
        (torch.tensor(3), "i64[] 3"),
        (torch.ones(2, device="meta"), "f32[2] meta"),
        (nn.Linear(1, 1), "Linear"),
        ((torch.ones(1),), "(f32[1],)"),
        ({"a": torch.ones(1)}, "{'a': f32[1]}"),
        (..., "..."),
        (len, "len"),
        (Rude(), "<Rude whose repr raises RuntimeError>"),
    ],
)
def test_values_are_described_in_one_line(value, shown):
    assert describe(value) == shown


def test_long_and_endless_values_are_cut():
    endless = [1]
    endless.append(endless)
    assert describe(endless).startswith("[1, [1, ")
    assert describe("x" * 1000).endswith("...") and len(describe("x" * 1000)) == 80
    assert "20 items" in describe(list(range(20)))
    assert "\n" not in describe("two\nlines")


def test_a_text_is_python_s_own_and_fits_into_a_file():
    class Text(str):
        def encode(self, *_):
            raise RuntimeError("no")

        __str__ = encode

    assert type(plain_text(Text("a"))) is str
    assert plain_text("a\ud800") == "a\\ud800"
    assert describe("\ud800") == repr("\ud800")


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, GeneratorExit])
def test_classes_and_messages_are_told_whatever_they_say_themselves(error):
    class Meta(type):
        def __getattribute__(cls, name):
            raise error("no")

    class Silent(ValueError, metaclass=Meta):
        def __str__(self):
            raise error("no")

        __repr__ = __str__

    assert class_name(Silent()) == "Silent"
    assert describe(Silent()) == f"<Silent whose repr raises {error.__name__}>"
    assert message_of(Silent()) == f"Silent: <its message raises {error.__name__}>"
    assert message_of(ValueError(" one\ntwo")) == "ValueError: one" and message_of(KeyError()) == "KeyError"
    assert len(message_of(ValueError("x" * 1000))) == len("ValueError: ") + 200


def test_a_learner_s_interrupt_is_no_value_s_own():
    class Endless:
        def __repr__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        describe(Endless())


def test_rows_are_aligned_and_an_empty_table_is_empty():
    assert aligned([("a", "1"), ("long", "2")]) == "a     1\nlong  2"
    assert aligned([]) == ""
