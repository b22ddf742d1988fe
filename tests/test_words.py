"""What docstrings and comments name in back quotes is there: a module, or a name that the code uses."""

import io
import re
import tokenize
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "course_utils"
NAMED = re.compile(r"(?<!`)``([A-Za-z_]\w*)(?:\.(\w+))?(?:\(\))?``(?!`)|\b([a-z_]+)\.([A-Z_]{2,})\b")
# Names of other programs, and of examples.
FOREIGN = {
    *("Addmm", "AddmmBackward0", "__globals__", "cumprod", "directory_structure", "empty_cache", "history.losses"),
    *("malloc", "mat1", "max_memory_allocated", "memory_reserved", "no_new_privs", "run.__dict__"),
    *("sanitize_html", "scaled_dot_product_attention"),
}


def words(text: str) -> tuple[set[str], list[tuple[int, str]]]:
    """The names in code and in its strings; the docstrings and comments, each with its line."""
    used: set[str] = set()
    said: list[tuple[int, str]] = []
    begins = True
    for kind, string, (line, _), _, _ in tokenize.generate_tokens(io.StringIO(text).readline):
        if kind == tokenize.COMMENT or (kind == tokenize.STRING and begins):
            said.append((line, string))
        elif kind in (tokenize.NAME, tokenize.STRING):
            used.update(re.findall(r"\w+", string))
        if kind not in (tokenize.COMMENT, tokenize.NL):
            begins = kind in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return used, said if text else []


def not_there(folder: Path) -> list[str]:
    """``file:line: name`` for what is named and nowhere to be found."""
    files = {path.relative_to(folder): words("\n" + path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")}
    in_module: dict[str, set[str]] = {}
    for path, (used, _) in files.items():
        for part in path.with_suffix("").parts:
            in_module.setdefault(part, set()).update(used | {path.stem, path.parent.name})
    everywhere = FOREIGN.union(in_module, *in_module.values())
    found = []
    for path, (used, said) in sorted(files.items()):
        for line, text in said:
            for match in NAMED.finditer(text):
                name, more = match[1] or match[3], match[2] or match[4]
                if not more and name == path.stem:
                    there = name in used  # the module's own name says nothing of what is in it
                elif more and name in in_module and name not in used:
                    there = more in in_module[name] or more in ("py", "toml")
                else:  # of what is no module, only constants are looked for: the rest are objects in an example
                    there = name in everywhere or bool(find_spec(name)) or bool(more and not more.isupper())
                if not there and f"{name}.{more}" not in FOREIGN:
                    found.append(f"{path.as_posix()}:{line - 1 + text[: match.start()].count(chr(10))}: {match[0]}")
    return found


def test_what_is_named_is_there():
    assert not_there(ROOT) == [], "what stands between double backticks is a name in the code"


def test_a_name_that_is_gone_is_found(tmp_path):
    (tmp_path / "bars.py").write_text(
        '"""Bars (``bars``), by ``stack`` and ``gone``; see ``rows.read`` and ``rows.write``."""\n\n'
        "def stack(): ...  # as old_rows.ALL and ``torch.cat`` say\n",
        encoding="utf-8",
    )
    (tmp_path / "rows.py").write_text("def read(): ...\n", encoding="utf-8")
    found = [line.partition(": ")[2] for line in not_there(tmp_path)]
    assert found == ["``bars``", "``gone``", "``rows.write``", "old_rows.ALL"]
