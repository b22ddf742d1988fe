"""Notices, undoes and refuses what would change the judge."""
