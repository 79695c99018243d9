"""Sweeps: the varied config fields (spaces), the database of trials (study) and the processes that train (worker)."""
