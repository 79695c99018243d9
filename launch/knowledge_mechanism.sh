#!/usr/bin/env bash
# ESIM on the demo corpus with knowledge, without knowledge, and with permuted concept ids as a control; 3 seeds each. It
# shows whether the ontology helps where only the ontology can. About half an hour on 2 cores. Prints a table at the end.
#
#   bash launch/knowledge_mechanism.sh [FOLDER] [further flags of train, e.g. --config.model.hidden_size=100]
set -euo pipefail
. "$(dirname "$0")/usage.sh"
folder=${1:-runs/mechanism}
shift || true

run() { # name, then flags
  local name=$1
  shift
  if ! grep -q '"status": "complete"' "$folder/$name/result.json" 2>/dev/null; then
    python -m mednli_jax.train --config=configs/esim_kd.py --config.seeds=0,1,2 --workdir="$folder/$name" --force "$@"
  fi
}

run none --config.model.knowledge=none "$@"
run replace --config.model.knowledge=replace "$@"
run bias --config.model.knowledge=bias "$@"
run replace-permuted --config.model.knowledge=replace --config.knowledge.permute_seed=0 "$@"
run bias-permuted --config.model.knowledge=bias --config.knowledge.permute_seed=0 "$@"
run replace-scale1 --config.model.knowledge=replace --config.model.knowledge_scale=1.0 "$@"

python - "$folder" <<'PY'
import json, pathlib, sys

names = ("none", "replace", "bias", "replace-permuted", "bias-permuted", "replace-scale1")
rows = {name: json.loads((pathlib.Path(sys.argv[1]) / name / "result.json").read_text())["test"] for name in names}
base = rows["none"]["slices"]["unseen_relation"]["accuracy"]["mean"]
print(f"{'knowledge':18} {'test':>7} {'unseen_relation':>16} {'gain':>7}   per seed")
for name, scores in rows.items():
    unseen = scores["slices"]["unseen_relation"]["accuracy"]
    seeds = " ".join(f"{100 * value:.1f}" for value in unseen["per_seed"])
    gain = 100 * (unseen["mean"] - base)
    print(f"{name:18} {100 * scores['accuracy']['mean']:7.1f} {100 * unseen['mean']:16.1f} {gain:+7.1f}   {seeds}")
PY
