"""Herlihy & Rudinger 2021: what hypotheses of sentence pairs give away, and pairs that are easy for
that reason."""
