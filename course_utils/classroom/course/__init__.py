"""A course on disk: its folder, releases, what was handed in."""
