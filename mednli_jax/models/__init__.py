"""Linen modules: pure functions of a batch, `model.apply(variables, batch, train=...) -> logits [B,
C]`."""
