"""Settings of jax that change a run's numbers, and those under which the models do not run.

The environment variable of a setting is its name in capitals: $JAX_ENABLE_X64 sets jax_enable_x64.
"""

import jax

from mednli_jax.errors import RunError

# Settings that change draws or products. A resumed run must have those with which it began.
NUMERIC = (
    "jax_enable_x64",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_random_seed_offset",
    "jax_default_matmul_precision",
)
_TRANSFERS = (None, "allow", "log", "log_explicit")
# Settings for debugging, with the values under which the models run.
RUNNING = {
    "jax_disable_jit": (False,),  # steps are compiled ahead, and the backward passes need it
    "jax_no_tracing": (False,),
    "jax_no_execution": (False,),
    "jax_numpy_rank_promotion": ("allow", "warn"),
    "jax_numpy_dtype_promotion": ("standard",),
    "jax_transfer_guard": _TRANSFERS,
    "jax_transfer_guard_host_to_device": _TRANSFERS,
    "jax_transfer_guard_device_to_device": _TRANSFERS,
    "jax_transfer_guard_device_to_host": _TRANSFERS,
}
EXTRAS = {"cuda": "cuda12", "gpu": "cuda12", "tpu": "tpu"}  # platform -> the package's extra


def numeric_settings() -> dict[str, bool | int | str | None]:
    """The values of NUMERIC in this process, of those that this version of jax has."""
    return {name: getattr(jax.config, name) for name in NUMERIC if hasattr(jax.config, name)}


def check_jax() -> None:
    """Starts jax. Raises RunError where jax has no device, or a setting under which the models do
    not run."""
    for name, values in RUNNING.items():
        value = getattr(jax.config, name, values[0])  # a version of jax may lack a setting
        if value not in values:
            problem = f"jax is set to {name}={value}, under which the models do not run"
            raise RunError(problem, fix=f"unset {name.upper()}")
    # A program on a CPU then runs in the thread that calls it, whose memory is kept between steps
    # (devices.keep_memory). glibc keeps no more than 64 MB of another thread.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:
        raise RunError(_without_device(error)) from None


def _without_device(error: Exception) -> str:
    """The message for jax's error: its reason, the setting that chose the platform, the extra to
    install."""
    reason = str(error).partition(" (set JAX_PLATFORMS")[0] or "it finds no device of this platform"
    setting, platforms = "", ""
    for name in ("jax_platforms", "jax_platform_name"):
        setting, platforms = name.upper(), getattr(jax.config, name) or ""
        if platforms:
            break
    fix = f"unset {setting}" if platforms else "set JAX_PLATFORMS=cpu"
    extras = {EXTRAS[name] for name in platforms.split(",") if name in EXTRAS}
    if extras:
        package = f"mednli_jax[{','.join(sorted(extras))}]"
        fix += f", or pip install '{package}' on a machine with the device"
    chosen = f"{setting}={platforms}: " if platforms else ""
    return f"{chosen}jax cannot start ({reason.rstrip('.')}). Fix: {fix}."
