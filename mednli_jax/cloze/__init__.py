"""Cloze queries about passages: corpora, set-ups, arrays, batches, scores and baselines.

The networks that read passages are in models/cloze_readers.py.
"""
