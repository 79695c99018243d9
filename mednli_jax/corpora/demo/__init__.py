"""Bundled synthetic corpora: generators and their words."""
