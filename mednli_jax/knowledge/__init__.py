"""What the package knows beyond the corpus: ontologies, concept mentions, distances between concepts, word vectors."""
