"""The bridge: the only place where an Example becomes a Batch and a logit becomes a prediction."""
