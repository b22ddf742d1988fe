"""For teachers: the lessons as nbgrader assignments, graded in a sandbox, in parallel, with nothing lost.

``autograd-control classroom init|release|grade|feedback|export``; docs/classroom.md walks through them. Needs the
``classroom`` extra.
"""
