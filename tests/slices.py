"""Which cells of a learner notebook a push runs (``cells_to_run``); its solution runs the others, word for word."""

from nbformat import NotebookNode

from course_utils.classroom.course.source import read_code


def cells_to_run(learners: NotebookNode, solution: NotebookNode) -> set[int]:
    """The cells that the solution does not have, those that use what they define, and what all these need.

    Returns:
        Numbers of code cells, counted from 0 without the others.
    """
    solved = {cell.id: cell.source for cell in solution.cells}
    cells = [cell for cell in learners.cells if cell.cell_type == "code"]
    code = [read_code(cell.source) for cell in cells]
    found, new = set(), set()
    for number, (cell, read) in enumerate(zip(cells, code, strict=True)):
        if solved.get(cell.id) != cell.source or read.uses & new:
            new |= read.defines
            found.add(number)
    waiting = list(found)
    while waiting:
        number = waiting.pop()
        for name in code[number].uses:
            binding = [other for other, read in enumerate(code) if name in read.defines]
            # The last one before it; a function may use what is bound behind it.
            needed = [other for other in binding if other < number][-1:] or binding
            waiting += set(needed) - found
            found |= set(needed)
    return found
