"""How Sphinx makes the course's site; ``__main__.py`` writes the pages' sources and calls it.

Nothing is run and nothing is fetched: the notebooks bring their outputs, formulas become MathML, and what a page
loads lies beside it, so that the site also works from a folder, without a server.
"""

from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

from tools.book import errors

project = "Controlling autograd"
copyright = "The authors of Controlling autograd. Text and figures: CC BY 4.0, code: BSD 3-Clause"
language = "en"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]

nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4  # links in the notebooks name headings

nitpicky = True
nitpick_ignore_regex = [
    # Types of other libraries, which have pages of their own elsewhere.
    ("py:.*", r"(torch|collections|matplotlib|os|types|pathlib|contextlib|IPython)\..*"),
    # In signatures: types without a page, and names that are imported for type checkers alone.
    ("py:class", r"course_utils\.\w+\..*|[A-Z]\w+"),
]
autodoc_default_options = {"members": True}
autodoc_typehints = "signature"
add_module_names = False
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
autosummary_generate = True
templates_path = [str(Path(__file__).with_name("templates"))]

linkcheck_timeout = 30
linkcheck_retries = 3

html_theme = "pydata_sphinx_theme"
html_title = "Controlling autograd"
html_static_path = ["static"]
html_css_files = ["style.css"]
html_js_files = ["print.js"]
html_copy_source = False
html_sidebars = {"control_panel": []}  # a wide table, and no pages beside it
html_use_index = False
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}


def setup(app: Sphinx) -> None:
    """Formulas as MathML, which browsers draw themselves: Sphinx's MathJax would come over the network."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.config.html_math_renderer = "mathml"
    app.connect("autodoc-process-docstring", _as_napoleon_reads_them, priority=400)  # before napoleon's
    app.connect("autodoc-process-signature", _readable)
    app.connect("html-page-context", _find_pasted)


def _as_napoleon_reads_them(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    # Napoleon takes what stands before a colon for a type, in "Returns:" and in the docstring of a property. Here the
    # types stand in the signatures, and such a text is a sentence; after an empty type it is taken whole. An example
    # is code, and not prose.
    if what in ("attribute", "property") and lines:
        lines[0] = f": {lines[0]}"
    section, read = "", list(lines)
    lines.clear()
    for line in read:
        if line and not line.startswith(" "):
            section = line
        before = lines[-1] if lines else ""
        if before in ("Returns:", "Yields:"):
            line = f"    : {line.strip()}"
        elif before == "Example:":
            lines += ["    .. code-block:: python", ""]
        lines.append(f"    {line}" if section == "Example:" and line.startswith(" ") else line)


def _readable(
    app: Sphinx, what: str, name: str, thing: object, options: object, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    # A field that a dataclass makes anew is no Python in a signature, and Sphinx then shows all of it as one text.
    return signature and signature.replace("<factory>", "..."), returned


def _find_pasted(app: Sphinx, page: str, *_: object) -> None:
    if page == "search":
        app.add_js_file(None, body=errors.parts())
        app.add_js_file("pasted.js")


def _inline(translator: object, node: nodes.math) -> None:
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def _block(translator: object, node: nodes.math_block) -> None:
    translator.body.append(tex2mathml(node.astext(), as_block=True))
    raise nodes.SkipNode
