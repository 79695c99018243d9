"""Tasks turn prepared rows into batches and logits into predictions and scores."""
