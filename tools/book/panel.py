"""The page to keep: the control panel, made by running it, on one printed sheet (``page``)."""

import re

from course_utils import control_panel

PAGE = """\
# The control panel

Ways to say no to autograd, and some that only look like one, side by side. In each row the code on the left ran;
`features` then went through a head that learns, `head(features).sum()`, and that number went backward. Images require
grad, so that one can see whether a gradient passes. What is kept is counted between forward and backward, parameters
and images left out: `features` has 2 KiB, and the encoder's inner activation as much. The last column but one says
whether `backward()` raises after `features` was written to in place; where nothing was recorded, there is nothing to
notice it (—).

```{{raw}} html
<div class="control-panel" tabindex="0" role="region" aria-label="The control panel">
{table}
</div>
```

All columns but the last are what PyTorch did when this page was made. In a notebook, `control_panel()` makes the table
with the PyTorch that you have installed.
"""


def page() -> str:
    """The page, in Markdown."""
    table = re.sub(r'href="(\w+)\.ipynb"', r'href="notebooks/\1.html"', control_panel()._repr_html_())
    return PAGE.format(table=table)
