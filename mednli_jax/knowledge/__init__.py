"""Knowledge from outside the corpus: ontologies, concept mentions, distances between concepts, word
vectors."""
