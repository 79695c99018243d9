"""Corpora: files become Examples, Examples become arrays on disk, rows become batches."""
