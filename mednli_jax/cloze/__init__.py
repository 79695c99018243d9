"""Cloze queries over passages: readers, views and encoding."""
