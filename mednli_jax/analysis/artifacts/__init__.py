"""Annotation artefacts of NLI corpora (Herlihy & Rudinger 2021)."""
