"""A learner's folder of notebooks, and JupyterLab in it. Run as ``python -m course_utils.workspace``."""
