"""JupyterLab in a real browser, as a learner meets it."""
