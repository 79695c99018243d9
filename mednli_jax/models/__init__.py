"""Linen modules. Pure functions of a Batch: `model.apply(variables, batch, train=...) -> logits [B, C]`."""
