"""The benchmark against PyTorch: workloads, contenders in processes of their own, interleaved rounds, figures."""
