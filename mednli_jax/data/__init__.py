"""Corpora: files become Examples, Examples become arrays on disk, and rows become batches."""
