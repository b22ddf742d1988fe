"""The page that shows the engine of lesson 12 whole (``page``)."""

import inspect

from course_utils.engine import whole

PAGE = """\
# The whole engine

This is the engine that [lesson 12](12_own_engine.ipynb) builds: first what the lesson gives you, then the five parts
that you write. Read it after the exercises. It runs on NumPy alone. On random programs it comes to PyTorch's values and
gradients, to 1e-12, and to errors in the same places.

```python
{source}```
"""


def page() -> str:
    """The page, in Markdown."""
    return PAGE.format(source=inspect.getsource(whole))
