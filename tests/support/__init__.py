"""Data and helpers that the tests share: one module for each kind of file."""
