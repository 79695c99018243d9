"""`python -m mednli_jax.doctor` lists what this machine has, what is missing, and where to get it."""

import os
import sys
from pathlib import Path

from absl import flags

from mednli_jax import cli
from mednli_jax.errors import UsageError

USAGE = """Print what is installed and which corpora, ontologies, vectors and weights are found.

  python -m mednli_jax.doctor
  python -m mednli_jax.doctor --data=/data/clinical

  --data=DIR      the data folder (default: $MEDNLI_JAX_DATA)

Nothing is changed and no text of a corpus is printed. Exit code 0, or 2 where a line is marked CHECK."""

MARKS = {"ok": "ok     ", "missing": "missing", "check": "CHECK  "}


def define(values: cli.Flags) -> None:
    flags.DEFINE_string("data", None, "data folder", flag_values=values)


def main(values: cli.Flags) -> int:
    from mednli_jax import inventory
    from mednli_jax.data.corpus import cache_folder
    from mednli_jax.report import runs

    folder = values.data or os.environ.get("MEDNLI_JAX_DATA")
    folder = Path(folder).expanduser() if folder else None
    if folder is not None and not os.path.isdir(folder):
        raise UsageError(f"{folder}: is not a folder. Fix: check $MEDNLI_JAX_DATA or --data.")
    here = runs.environment()
    print(f"mednli_jax {here['mednli_jax']} {here['commit']}, Python {here['python']}, {here['platform']}")
    print("  " + ", ".join(f"{name} {version}" for name, version in here["versions"].items()))
    print(f"devices: {_devices()}; {here['cpus']} CPUs, load {here['load']:.1f}")
    findings = _show("cache", [inventory.cache(cache_folder())])
    if folder is None:
        print("data: $MEDNLI_JAX_DATA is not set; the demo corpus needs none")
    else:
        print(f"data: {folder}")
        findings += _show("privacy", inventory.privacy(folder))
    findings += _show("corpora", inventory.corpora(folder))
    findings += _show("ontologies", inventory.ontologies(folder))
    findings += _show("vectors", inventory.vectors(folder))
    findings += _show("weights", inventory.weights(folder))
    return cli.USAGE if any(finding.state == "check" for finding in findings) else cli.OK


def _show(title, findings):
    print(f"{title}:")
    for finding in findings:
        print(f"  {MARKS[finding.state]} {finding.what}: {finding.note}")
    return findings


def _devices():
    import jax

    return ", ".join(f"{device.platform}:{device.device_kind}" for device in jax.devices())


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define))
