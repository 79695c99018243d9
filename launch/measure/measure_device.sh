#!/usr/bin/env bash
# Measures what is needed from a GPU or TPU in 25 minutes, the most important part first: tests on the device, rows of
# the benchmark, determinism of two runs, a profile.
#
#   bash launch/measure/measure_device.sh FOLDER
#   SMALL=1 bash launch/measure/measure_device.sh FOLDER             # tiny sizes, to try the script on a CPU
#   PARTS="infersent-64 seeds" bash launch/measure/measure_device.sh FOLDER
#
# Each part writes a file with its name to FOLDER. A part whose file exists is skipped: after an interruption the same
# command continues. FOLDER/table.md is a Markdown table of the rows so far, for docs/benchmarks.md;
# FOLDER/log.txt holds the output of the parts. $LIMIT: most seconds of a part (300). $PARTS: only these parts. $AGAINST:
# the other side of the benchmark, torch (default where it is installed) or none. Exit code 1: a part failed.
set -euo pipefail
. "$(dirname "$0")/../usage.sh"
if [ $# != 1 ]; then
  echo "error: give one folder. Fix: bash $0 --help" >&2
  exit 2
fi
(umask 077 && mkdir -p "$1")
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."

sizes=() model=() epochs=2 tests=(tests/models/test_stacked.py tests/models/test_models.py tests/models/test_encoder.py)
if [ -n "${SMALL:-}" ]; then
  sizes=(--pairs=160 --rounds=1 --vectors=8 --tokens=40 --length=16)
  model=(--config.model.hidden_size=8 --config.vectors.dim=8)
  epochs=1 tests=(tests/models/test_stacked.py)
fi
against=${AGAINST:-$(python -c 'import importlib.util as i; print("torch" if i.find_spec("torch") else "none")')}

failed=()
part() { # name, command: it writes its result to the path that stands as FILE
  local name=$1 begun=$SECONDS
  shift
  [[ " ${PARTS:-${name%%.*}} " == *" ${name%%.*} "* ]] || return 0
  if [ -e "$folder/$name" ]; then
    echo "$name: done" >&2
    return
  fi
  rm -rf "$folder/$name.part"
  if timeout "${LIMIT:-300}" "${@//FILE/$folder/$name.part}" >>"$folder/log.txt" 2>&1 && [ -e "$folder/$name.part" ]; then
    mv "$folder/$name.part" "$folder/$name"
    echo "$name: $((SECONDS - begun)) s" >&2
  else
    failed+=("$name")
    echo "$name: failed or too slow, see $folder/log.txt" >&2
  fi
  table
}

row() { # name, model, hidden size for SMALL, flags of the benchmark
  local name=$1 model=$2 hidden=()
  [ -z "${SMALL:-}" ] || hidden=(--hidden="$3")
  part "$name.jsonl" python launch/measure/throughput --models="$model" "${@:4}" "${sizes[@]}" "${hidden[@]}" \
    --json=FILE
}

table() {
  python - "$folder" <<'PY'
import json, sys
from pathlib import Path
sys.path.append("launch/measure/throughput")
from throughput_table import lines

folder = Path(sys.argv[1])
files = sorted(folder.glob("*.jsonl"), key=lambda each: each.stat().st_mtime)
rows = [json.loads(line) for each in files for line in each.read_text().splitlines()]
if rows:
    machine = {f"{row['device']}, jax {row['jax_version']}, torch {row['torch_version']}" for row in rows}
    (folder / "table.md").write_text("\n".join([*sorted(machine), "", *lines(rows), ""]))
PY
}

part tests.xml env MEDNLI_JAX_TESTS_DEVICE=1 JAX_DEFAULT_MATMUL_PRECISION=float32 \
  python -m pytest -n 0 -q -p no:cacheprovider --junitxml=FILE "${tests[@]}"
row infersent-64 infersent 16 --batch=64 --against="$against"
row esim-64 esim 16 --batch=64 --against="$against"
row bert bert 64 --batch=16,32 --against="$against"
row ga-1500 ga_reader 8 --mode=train --against="$against"
row bow-64 bow 16 --batch=64 --against="$against"
row seeds infersent 16 --batch=64 --mode=train --seeds=6,16 --against=none
row infersent-512 infersent 16 --batch=512 --against="$against"
row esim-512 esim 16 --batch=512 --against="$against"
row bow-512 bow 16 --batch=512 --against="$against"

trained() { # name, flags: a run with weights of links and trained vectors, whose sums are scattered
  python -m mednli_jax.train --config=configs/esim_kd.py:demo --config.seeds=0,1 --config.train.epochs=$epochs \
    --config.model.knowledge=bias --config.model.train_vectors=True "${model[@]}" --force --workdir="$@"
}
runs() { # file: whether two runs predict the same to the bit; the first one is traced
  trained "$folder/run-1" --profile
  trained "$folder/run-2"
  if cmp "$folder"/run-{1,2}/private/predictions.test.jsonl; then echo same; else echo different; fi >"$1"
}
part determinism.txt bash -euc "$(declare -p folder epochs model); $(declare -f trained runs); runs FILE"
table

if [ ${#failed[@]} -gt 0 ]; then
  echo "$0: not done: ${failed[*]}" >&2
  exit 1
fi
