"""Analyses of runs on sentence pairs."""
