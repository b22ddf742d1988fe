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
LISTED = torch_private.NAMES | torch_private.ATTRIBUTES


def test_this_pytorch_has_all_that_the_course_leans_on():
    assert torch_private.gone() == []


@pytest.mark.parametrize("name", [name for name, private in torch_private.NAMES.items() if not private.optional])
def test_a_name_is_what_its_path_leads_to(name):
    *parents, last = torch_private.NAMES[name].where.split(".")
    owner = sys.modules.get(".".join(parents)) or eval(".".join(parents), {"torch": torch})
    assert getattr(torch_private, name) is getattr(owner, last)


def test_somebody_needs_what_is_listed():
    def pattern(name: str) -> str:  # as some are asked for: all names that begin so
        return next((start for start in ("_raw_saved_", "_saved_", "_global_") if name.startswith(start)), name)

    names = {*LISTED, *torch_private.MODULES, *torch_private.NODES}
    assert [name for name in names if not torch_private.users(pattern(name))] == []


def test_a_new_release_that_lacks_two_things_is_told_in_a_line_each(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.17.0+cpu")
    monkeypatch.delattr(torch._C._functorch, "get_unwrapped")
    named = torch_private.node_name
    monkeypatch.setattr(torch_private, "node_name", lambda node: named(node).replace("AccumulateGrad", "LeafGrad"))
    unwrapped, renamed = torch_private.gone()
    assert unwrapped == (
        "PyTorch 2.17.0+cpu has no torch._C._functorch.get_unwrapped (it was there in 2.10 to 2.15), needed for the "
        f"tensor inside one of torch.func: {', '.join(torch_private.users('get_unwrapped'))}."
    )
    assert "graph/storages.py" in unwrapped
    assert renamed.startswith("PyTorch 2.17.0+cpu has no node AccumulateGrad but LeafGrad (it was there in ")
    assert "graph/walk.py" in renamed


def test_who_imports_what_is_gone_is_told_the_same(monkeypatch):
    monkeypatch.delattr(torch._C._functorch, "get_unwrapped")
    with pytest.raises(ImportError, match=r"has no torch\._C\._functorch\.get_unwrapped .* graph/storages\.py"):
        from course_utils.base.torch_private import get_unwrapped  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name 'get_wrapped'"):
        from course_utils.base.torch_private import get_wrapped  # noqa: F401


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


def modules() -> dict[Path, ast.Module]:
    """Every module of the package but the one that lists."""
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if path != Path(torch_private.__file__)]
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def private_uses(tree: ast.Module) -> set[str]:
    """Paths into torch that something private is on, written out or imported."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom):
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return {path for path in found if re.fullmatch(r"(torch|nn)(\.\w+)*\._(?!_)\w+(\.\w+)*", path)}


def test_modules_take_private_names_from_the_list():
    uses = {path.relative_to(PACKAGE).as_posix(): private_uses(tree) for path, tree in modules().items()}
    assert {path: found for path, found in uses.items() if found} == {}


def test_private_attributes_that_modules_use_are_listed():
    samples = [make() for make in torch_private.SAMPLES.values()]
    listed = {private.where.rpartition(".")[2] for private in LISTED.values()}
    for path, tree in modules().items():
        attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        own = {node.attr for node in attributes if isinstance(node.ctx, ast.Store)}
        asked = {node.attr for node in attributes if ast.unparse(node.value) not in ("self", "cls", "os", "sys")} - own
        of_torch = {name for name in asked if re.match("_(?!_)", name) and any(hasattr(one, name) for one in samples)}
        assert of_torch <= listed, path
