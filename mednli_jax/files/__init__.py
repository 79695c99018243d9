"""Paths, writing and reading of files."""
