"""The devices that a process sees, as variables of its environment. This module needs no jax."""

import os

ONE_CHIP = {"TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1", "TPU_PROCESS_BOUNDS": "1,1,1"}


def one_device(number: int) -> dict[str, str]:
    """Environment variables of a process that sees one GPU or TPU chip alone.

    number: of the device among those that this process sees, from 0. If the environment names
    fewer devices, the numbers start again at its first one: processes share devices.
    """
    variables = dict(ONE_CHIP)
    for name in ("CUDA_VISIBLE_DEVICES", "TPU_VISIBLE_CHIPS"):
        devices = os.environ.get(name, str(number)).split(",")
        variables[name] = devices[number % len(devices)]
    return variables
