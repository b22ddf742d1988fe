"""A learner's folder of notebooks, and JupyterLab in it. See ``autograd-control lab``."""
