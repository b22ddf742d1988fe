"""The settings with which Sphinx makes the site, tried on a site of two pages."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_utils.authoring.files import NOTEBOOK_METADATA
from tests.book.given import sphinx

pytestmark = pytest.mark.slow

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
INDEX = """\
Names
=====

.. toctree::

   notebook

.. currentmodule:: course_utils

.. autosummary::
   :toctree: .
   :template: name.rst

   MemoryTracker
"""


def build(folder, *markdown):
    sources, site = folder / "sources", folder / "site"
    sources.mkdir()
    (sources / "index.rst").write_text(INDEX, encoding="utf-8")
    cell = new_code_cell("print('two')", metadata={"mystnb": {"image": {"alt": "A dot, in words"}}})
    cell.outputs = [
        new_output("stream", text="two\n"),
        new_output("display_data", {"image/png": PIXEL}),
    ]
    cells = [new_markdown_cell("# A page\n\n## Where it is"), cell, *markdown]
    notebook = new_notebook(cells=cells, metadata=NOTEBOOK_METADATA)
    nbformat.write(notebook, sources / "notebook.ipynb")
    return sphinx(sources, site), site


def test_two_pages(tmp_path):
    formula = new_markdown_cell(r"$$\frac{1}{2}$$ and [there](notebook.ipynb#where-it-is)")
    folded = new_markdown_cell("<details><summary>Open</summary>inside</details>")
    result, site = build(tmp_path, formula, folded)
    assert (result.returncode, result.stderr) == (0, "")
    page = (site / "notebook.html").read_text(encoding="utf-8")
    assert 'alt="A dot, in words"' in page and "two" in page
    assert "<mfrac>" in page and "<details><summary>Open</summary>" in page and 'href="#where-it-is"' in page
    assert 'src="http' not in page and 'rel="stylesheet" href="http' not in page
    name = (site / "course_utils.MemoryTracker.html").read_text(encoding="utf-8")
    assert "highlight-python" in name, "an example in a docstring is code"
    assert "report" in name and "Parameters" in name


@pytest.mark.nightly
def test_broken_links_fail(tmp_path):
    links = {"notebook.ipynb#no-heading": "'no-heading'", "no-file.md": "'no-file.md'", "#no-place": "'no-place'"}
    result, _ = build(tmp_path, *[new_markdown_cell(f"[there]({link})") for link in links])
    assert result.returncode
    assert [said for said in links.values() if said not in result.stderr] == []
