"""Analyses of cloze corpora and of runs on them."""
