"""The one training loop: state, step, optimiser, devices, checkpoints."""
