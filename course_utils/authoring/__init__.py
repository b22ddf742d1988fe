"""For authors: text files and solution notebooks in; headings, checks, learner notebooks, the map of the course out.

``python -m course_utils.authoring build|lint|run|programs|card``. Needs the ``classroom`` extra, because the learner
notebooks are made by nbgrader's own code.
"""
