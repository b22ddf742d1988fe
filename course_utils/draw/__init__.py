"""Figures of what was measured, each a ``Drawing``: the figure and the same in words.

The only package that knows matplotlib, and it imports it when a figure is drawn.
"""
