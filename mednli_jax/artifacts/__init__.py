"""Herlihy & Rudinger 2021: artefacts in the hypotheses of sentence pairs, and the pairs that they
make easy."""
