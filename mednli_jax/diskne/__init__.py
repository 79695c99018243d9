"""DisKnE: examples by disease, published files, builder and folds."""
