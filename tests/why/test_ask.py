"""``why`` changes nothing, runs nothing, never raises; the command and the magic say what it says."""

import gc
import subprocess
import sys
import types
import warnings
import weakref
from importlib import import_module
from pathlib import Path

import pytest
import torch

from course_utils import watch_why, why
from course_utils.base import user_code
from course_utils.base.user_code import count_as_users
from course_utils.why.pages import UNKNOWN, pages
from tests import forks
from tests.why.drive import Program, asked, end_process_group, forget, line_in

count_as_users(__file__)


@pytest.fixture(autouse=True)
def nothing_watched():
    forget()
    yield
    forget()


def error_of(call) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


class Hostile:
    """Everything that looks at it is told off."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"{name} was asked for")

    def __repr__(self) -> str:
        raise AssertionError("its repr was asked for")

    @property
    def shape(self) -> tuple:
        raise AssertionError("its shape was asked for")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("it was compared")

    __hash__ = None


def edited(run: list) -> None:
    hostile = Hostile()  # noqa: F841
    w = torch.ones(3, requires_grad=True)
    w.register_hook(run.append)
    packed = torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: run.append("unpacked") or t)
    with packed:
        a = w.exp()
    h = torch.tanh(a.detach() + w)
    run.clear()
    h += 1
    h.sum().backward()


def test_nothing_is_changed_and_nothing_of_the_users_runs():
    run: list = []
    error = error_of(lambda: edited(run))
    frame = error.__traceback__.tb_next.tb_next.tb_frame
    w, h = frame.f_locals["w"], frame.f_locals["h"]
    run.clear()
    torch.manual_seed(3)
    before = torch.get_rng_state(), h._version, w._version, w.grad, len(w._backward_hooks)
    with torch.no_grad():
        reason = why(error)
        assert not torch.is_grad_enabled()
    assert reason.page == "modified_in_place" and "`h` was saved for backward by `tanh`" in str(reason)
    assert run == []
    assert torch.equal(before[0], torch.get_rng_state())
    assert (h._version, w._version, w.grad, len(w._backward_hooks)) == before[1:]
    why(w)
    why(w, h.sum())
    assert w.grad is None and w._version == before[2] and run == []


def test_nothing_is_kept_alive():
    kept: list[weakref.ref] = []

    def fail() -> None:
        big = torch.ones(1000, requires_grad=True)
        kept.append(weakref.ref(big))
        (big * big).backward()

    reason = why(error_of(fail))
    gc.collect()
    assert reason.cause == "forgotten_mean"
    assert kept[0]() is None


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.key, marks=pytest.mark.nightly if "process_group" in page.program else ())
        for page in pages()
        if not page.warns  # a warning ends nothing
    ],
)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_page_of_the_index_is_found_from_its_program(page, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(page.program)
    count_as_users(str(path))
    try:
        error = error_of(lambda: exec(compile(page.program, str(path), "exec"), {"__name__": "__main__"}))
        reason = why(error)
    finally:
        end_process_group()
    assert (reason.page, type(error).__name__) == (page.key, page.kind)
    assert reason.title == page.title and reason.explained
    assert "Could not find out" not in str(reason)
    assert reason.cure or "%%why" in reason.unsure or any(said.startswith("Perhaps: ") for said in reason.happened)


def test_a_failure_of_the_search_is_a_card(monkeypatch):
    monkeypatch.setattr(import_module("course_utils.why.ask"), "Scene", None)
    reason = why(error_of(lambda: torch.ones(3).sum().backward()))
    assert reason.cause == UNKNOWN and "does not require grad" in str(reason)


def test_without_an_error_it_says_so(monkeypatch):
    monkeypatch.delattr(sys, "last_value", raising=False)
    assert why().cause == UNKNOWN
    assert why(ValueError("no autograd at all")).cause == UNKNOWN


def test_what_is_no_tensor_is_refused_with_a_hint():
    with pytest.raises(TypeError, match=r"why\(model.weight\)"):
        why(["the weight"])


def test_an_error_behind_another_one_is_found():
    def fail() -> None:
        try:
            (torch.ones(2, requires_grad=True) * 2).backward()
        except RuntimeError as error:
            raise ValueError("the training failed") from error

    assert why(error_of(fail)).page == "not_a_scalar"


def test_a_none_that_is_no_gradient_is_no_error_of_autograd():
    layer = torch.nn.Linear(2, 1, bias=False)
    assert not why(error_of(lambda: layer.bias.data.zero_())).page
    assert not why(error_of(lambda: 0.1 * layer.bias)).page
    assert why(error_of(lambda: layer.weight.grad.data.zero_())).page == "grad_is_none"


def test_a_pasted_message_is_told_what_its_page_says():
    reason = why("RuntimeError: element 0 of tensors does not require grad\nand does not have a grad_fn")
    assert (reason.page, reason.lines) == ("does_not_require_grad", []) and "Perhaps: " in str(reason)
    assert why("it rains").page == ""


def test_a_card_is_html_and_text():
    reason = why(error_of(lambda: (torch.ones(2, requires_grad=True) * 2).backward()))
    assert "<div" in reason._repr_html_() and "Do this: " in str(reason)


def command(folder: Path, *words: str) -> tuple[int | None, str, str]:
    """Exit code, stdout and stderr."""
    return forks.ended(folder, forks.start(folder, "why", *words))


NAN = """
import torch

w = torch.zeros(2, requires_grad=True)
loss = w.sqrt().sum() * 0
loss.backward()
print(w.grad)
"""
SCRIPT = """
import sys
import torch

if sys.argv[1:] == ["well"]:
    print("done")
    sys.exit(5)
w = torch.ones(3, requires_grad=True)
h = torch.exp(w)
h -= 1
h.sum().backward()
"""


@pytest.mark.slow
def test_the_command_runs_a_script_as_it_is(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    assert command(tmp_path, "script.py", "well") == (5, "done\n", "")
    status, printed, failed = command(tmp_path, "script.py")
    assert (status, printed) == (1, "")
    assert "edited  script.py:10  h -= 1" in failed
    plain = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert failed.partition("\n== Why?")[0] == plain.stderr
    assert "edited  script.py:10  h -= 1" in command(tmp_path, "-m", "script")[2]
    assert command(tmp_path, "nowhere.py")[0] == 2
    (tmp_path / "argv.py").write_text("import sys; print(sys.argv)")
    assert command(tmp_path, "argv.py", "-x")[1] == "['argv.py', '-x']\n"
    (tmp_path / "nan.py").write_text(NAN)
    status, printed, silent = command(tmp_path, "nan.py")
    assert (status, printed) == (0, "tensor([nan, nan])\n")
    assert "made  nan.py:5  loss = w.sqrt().sum() * 0" in silent


def test_a_watch_leaves_torch_as_it_was():
    backward = torch.autograd.backward
    with watch_why() as watch:
        torch.ones(2, requires_grad=True).sum().backward()
    assert torch.autograd.backward is backward and watch.log.failed == 0


EDITS = "h = torch.exp(w)\ny = h * 2\nh += 1\ny.sum().backward()"


def test_a_notebook_is_asked_in_the_next_cell_or_runs_the_cell_watched(shell, capsys):
    shell.run_cell("import torch\nw = torch.ones(3, requires_grad=True)", store_history=True)
    shell.run_cell(EDITS, store_history=True)
    assert "An error of autograd: `why()`" in capsys.readouterr().out
    alone = shell.run_cell("%why", store_history=True).result
    assert alone.page == "modified_in_place" and "put `%%why` above the cell" in alone.unsure
    assert [(role, site.line) for role, site in alone.lines] == [("needed", 4)]
    watched = shell.run_cell(f"%%why\n{EDITS}", store_history=True)
    said = capsys.readouterr().out
    assert not watched.success and said.count("Traceback") == 1 and "course_utils/why" not in said
    assert "edited  Cell In[4], line 4  h += 1" in said and "| h = h + 1" in said
    shell.run_cell("%%why w, loss\nloss = (w * 2).detach().sum() + torch.ones(1)\n", store_history=True)
    assert "cut  Cell In[5], line 2  loss = (w * 2).detach()" in capsys.readouterr().out
    shell.run_cell("%%why\nloss = (w * 2).sum()\nloss.backward()", store_history=True)
    assert capsys.readouterr().out == ""
    shell.run_cell("v = torch.ones(3, requires_grad=True) * 2\nv.sum().backward()", store_history=True)
    assert shell.run_cell("%why v", store_history=True).result.cause == "not_a_leaf"


def trained() -> list[float]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(), torch.nn.Linear(4, 1)
    )
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for _ in range(3):
        loss = model(torch.randn(8, 3)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    scale = torch.func.vmap(torch.func.grad(lambda w, x: (w * x).sum().sin()), (None, 0))
    x = torch.randn(3, requires_grad=True)
    (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    slope.sum().backward()
    hidden = torch.utils.checkpoint.checkpoint(model, torch.randn(4, 3), use_reentrant=False)
    hidden.sum().backward()
    return [*losses, *scale(torch.randn(3), torch.randn(5, 3)).sum(0).tolist(), *x.grad.tolist(), hidden.sum().item()]


def test_what_is_watched_computes_the_same():
    plain = trained()
    with watch_why() as watch:
        assert trained() == plain
    assert watch.log.failed == 0


def test_a_graph_of_another_thread_is_told_by_that_threads_lines(tmp_path):
    program = """import threading, torch
w, kept = torch.ones(3, requires_grad=True), []
def forward():
    h = torch.exp(w)
    h += 1
    kept.append(h.sum())
for _ in range(10):
    noise = torch.tanh(w) * 2  # of the main thread; the nodes have the same numbers
thread = threading.Thread(target=forward)
thread.start()
thread.join()
kept[0].backward()
"""
    (tmp_path / "script.py").write_text(program, encoding="utf-8")
    count_as_users(str(tmp_path / "script.py"))
    with pytest.raises(RuntimeError) as caught, watch_why():
        exec(compile(program, str(tmp_path / "script.py"), "exec"), {"__name__": "__main__"})
    assert [(role, site.line) for role, site in why(caught.value).lines] == [("made", 4), ("edited", 5), ("needed", 12)]


def test_what_is_known_of_memory_ends_with_it():
    with watch_why() as watch:
        x = torch.zeros(1000).log()
        assert watch.log.of(x, "bad") is not None
        del x
    y = torch.full((1000,), float("-inf"))  # the same memory, most likely
    assert watch.log.memory(y) == [] and len(watch.log.recorder.live) == 0


def test_code_that_is_gone_is_not_kept():
    with watch_why():
        for number in range(20):
            exec(compile("import torch; y = torch.ones(3) * 2", f"<ipython-input-{number}-gone>", "exec"), {})
    kept = [code() for code, _ in user_code._sites.values()]
    assert not [code for code in kept if code is not None and code.co_filename.endswith("-gone>")]


def test_a_watch_answers_for_what_it_has_seen_and_for_nothing_else():
    w, net = torch.ones(3, requires_grad=True), torch.nn.Linear(3, 3)
    with watch_why():
        for _ in range(10):
            net(w).exp().mul(2).sum().backward()
        p = torch.tensor([0.0, 1.0], requires_grad=True)
        (p * torch.log(p)).sum().backward()
    w.grad = None

    def fail() -> None:
        h = torch.sigmoid(w)
        h += 1
        h.sum().backward()

    for _ in range(20):
        reason = why(error_of(fail))
        assert [role for role, _ in reason.lines] == ["needed"] and "%%why" in reason.unsure
    bad = torch.sqrt(torch.tensor([4.0, -4.0], requires_grad=True)).sum()
    assert why(bad).lines == []
    out = (net(w).detach() * torch.ones(1, requires_grad=True)).sum()
    out.backward()
    assert line_in(why(net.weight, out), "cut") == 0


def test_of_a_watch_it_is_said_that_it_ended_long_ago_or_failed():
    with watch_why() as watch:
        y = (torch.ones(3, requires_grad=True) * 2).detach()
    assert "ago" not in str(why(y))
    watch.log.ended -= 600
    assert "a watch has seen them that ended 10 minutes ago" in " ".join(str(why(y)).split())
    watch.log.failed += 1
    assert "a watch has seen them that could not look at every operation" in " ".join(str(why(y)).split())


@pytest.fixture
def always_warned():
    torch.set_warn_always(True)  # some of PyTorch's warnings come once in a process, and another test may have had them
    yield
    torch.set_warn_always(False)


def test_warnings_are_of_the_users_line_under_a_watch(always_warned):
    y = torch.ones(3, requires_grad=True).mean()
    with warnings.catch_warnings(record=True) as told, watch_why():
        warnings.simplefilter("always")
        float(y)
    assert [one.filename for one in told] == [__file__]


def test_what_is_compiled_fails_compiled_under_a_watch():
    square = torch.compile(lambda x: (x * x * x).sum(), backend="aot_eager")
    x = torch.ones(3, requires_grad=True)
    with watch_why(), pytest.raises(RuntimeError, match="double backward"):
        (slope,) = torch.autograd.grad(square(x), x, create_graph=True)
        slope.sum().backward()


def test_why_the_engine_cares_is_said_once():
    first, second = (why(error_of(lambda: torch.ones(3).sum().backward())) for _ in range(2))
    assert first.means == second.means and second.means[:40] not in " ".join(str(second).split())


def test_what_another_module_of_the_users_holds_is_at_hand(monkeypatch, tmp_path):
    text = "model = nn.Linear(3, 1).requires_grad_(False)\nmodel(torch.ones(2, 3)).sum().backward()\n"
    alone = asked(Program("beside", "", "", text), watched=False)
    assert alone.cause == "frozen" and "every parameter of `model` has" in alone.happened[0]
    helper = types.ModuleType("helper")
    helper.__file__, helper.model = str(tmp_path / "helper.py"), torch.nn.Linear(3, 1)
    monkeypatch.setitem(sys.modules, "helper", helper)
    count_as_users(str(tmp_path))
    beside = asked(Program("beside", "", "", text), watched=False)
    assert beside.cause == UNKNOWN and "nothing at hand" not in beside.happened[0]
    assert "Where it was cut" in beside.unsure
