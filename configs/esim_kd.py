from mednli_jax import defaults


def get_config(variant="demo"):
    return defaults.nli("esim", variant, knowledge="replace")
