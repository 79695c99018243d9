"""Readers of corpora of sentence pairs."""
