"""What is private to PyTorch stands in one module, and what a release takes away is told in one line."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from course_utils.base import torch_private

PACKAGE = Path(torch_private.__file__).parents[1]
PATHS = [path for path, _ in torch_private.NAMES.values()] + " ".join(torch_private.ATTRIBUTES.values()).split()
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != Path(torch_private.__file__)]


def test_a_name_is_what_its_path_leads_to():
    for name, (where, _) in torch_private.NAMES.items():
        owner, last = where.rsplit(".", 1)
        assert getattr(torch_private, name) is getattr(sys.modules.get(owner) or eval(owner), last)


def test_somebody_needs_what_is_listed():
    text = "\n".join(path.read_text(encoding="utf-8") for path in MODULES)
    # Some are asked for as all names that begin so.
    names = [re.sub("^(_raw_saved_|_saved_|_global_).*", r"\1", path.rpartition(".")[2]) for path in PATHS]
    names = [*torch_private.NAMES, *names[len(torch_private.NAMES) :], *torch_private.MODULES, *torch_private.NODES]
    assert [name for name in names if not re.search(rf"(?<!\w){re.escape(name)}", text)] == []


def test_a_new_release_that_lacks_two_things_is_told_in_a_line_each(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.17.0+cpu")
    monkeypatch.delattr(torch._C._functorch, "get_unwrapped")
    named = torch_private.node_name
    monkeypatch.setattr(torch_private, "node_name", lambda node: named(node).replace("AccumulateGrad", "LeafGrad"))
    unwrapped = (
        "PyTorch 2.17.0+cpu has no torch._C._functorch.get_unwrapped (it was there in 2.10 to 2.15), needed for the "
        "tensor inside one of torch.func."
    )
    said, renamed = torch_private.gone()
    assert said == unwrapped and renamed.startswith("PyTorch 2.17.0+cpu has no node AccumulateGrad but LeafGrad (it ")
    with pytest.raises(ImportError, match=re.escape(unwrapped)):
        from course_utils.base.torch_private import get_unwrapped  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name 'get_wrapped'"):
        from course_utils.base.torch_private import get_wrapped  # noqa: F401


@pytest.mark.nightly
@pytest.mark.slow
def test_a_run_of_the_tests_says_it_once_and_stops():
    program = (
        "import sys, pytest, torch; torch.__version__ = '2.17.0'; del torch._C._storage_Use_Count; "
        "sys.exit(pytest.main(['-q', '-n', '0', '-p', 'course_utils.leaks.pytest_fixture', "  # as where it is installed
        "'tests/test_text.py', 'tests/test_graph.py']))"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=PACKAGE.parent, capture_output=True, text=True)
    said = [line for line in (run.stdout + run.stderr).splitlines() if line.strip()]
    assert run.returncode != 0 and len(said) == 2, said  # pytest says why it stops on stdout and on stderr
    assert all("PyTorch 2.17.0 has no torch._C._storage_Use_Count (it was there in 2.10" in line for line in said)


@pytest.mark.slow
def test_a_project_beside_which_the_course_is_installed_loads_nothing_of_it(tmp_path):
    tests = (
        "import sys\n"
        "def test_torch_is_not_loaded():\n"
        "    assert 'torch' not in sys.modules\n"
        "    import torch\n"
        "    torch.__version__ = '1.13.0'\n"  # as where the project has an old one, and no need of the fixture
        "def test_growth(no_growth): pass\n"
    )
    (tmp_path / "test_theirs.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "course_utils.leaks.pytest_fixture"]
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.stderr == "" and "1 passed, 1 error" in run.stdout, run.stdout + run.stderr
    assert "ImportError: This course needs PyTorch 2.10 or newer, and found 1.13.0." in run.stdout


def test_modules_take_private_names_from_the_list_and_use_no_other_attributes():
    samples = [make() for make in torch_private.SAMPLES.values()]
    listed = {path.rpartition(".")[2] for path in PATHS}
    for path in MODULES:
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
        written = [ast.unparse(node) for node in attributes]
        for node in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                written += [f"{getattr(node, 'module', '')}.{alias.name}".lstrip(".") for alias in node.names]
        assert [name for name in written if re.fullmatch(r"(torch|nn)(\.\w+)*\._(?!_)\w+(\.\w+)*", name)] == [], path
        own = {node.attr for node in attributes if isinstance(node.ctx, ast.Store)}
        asked = {node.attr for node in attributes if ast.unparse(node.value) not in ("self", "cls", "os", "sys")} - own
        of_torch = {name for name in asked if re.match("_(?!_)", name) and any(hasattr(one, name) for one in samples)}
        assert of_torch <= listed, path
