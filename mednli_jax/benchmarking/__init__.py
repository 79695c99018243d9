"""The benchmark against PyTorch: workloads, contenders in child processes, interleaved rounds,
figures."""
