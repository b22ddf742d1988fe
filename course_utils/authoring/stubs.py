"""What stands in place of a solution in a learner notebook (``preprocessors``)."""

import re
from typing import Any

from nbgrader.converters import GenerateAssignment
from nbgrader.preprocessors import ClearSolutions

_TEMPLATE = re.compile(r"= \{\n(?:.*: \.\.\.,\n)+\}\n*\Z")  # a dict whose every value is still to be filled in


class FilledInPlace(ClearSolutions):
    """nbgrader's own, but below a dict of ``...`` to fill in stands no second place for the answer."""

    def _replace_solution_region(self, cell: Any, language: str) -> bool:
        above, begin, _ = cell.source.partition(f"### {self.begin_solution_delimeter}")
        replaced = super()._replace_solution_region(cell, language)
        if begin and _TEMPLATE.search(above):
            cell.source = above.rstrip()
        return replaced


def preprocessors() -> list[type]:
    """What ``nbgrader generate_assignment`` does to a notebook, in its order, for ``nbgrader_config.py``."""
    usual = GenerateAssignment.preprocessors.default_args[0]
    return [FilledInPlace if step is ClearSolutions else step for step in usual]
