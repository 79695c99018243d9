"""Sweeps: which fields of a config are varied (spaces), and the database that shares the trials out (study)."""
