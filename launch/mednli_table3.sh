#!/usr/bin/env bash
# Table 3 of Romanov & Shivade 2018: features, BOW, InferSent, ESIM.
#
#   bash launch/mednli_table3.sh [FOLDER] [CORPUS] [further flags of train for all runs]
#
# The default is the demo corpus, six seeds: about 20 minutes on 2 cores. What is done is skipped.
set -euo pipefail
folder=${1:-runs/table3} corpus=${2:-demo}
shift $(($# < 2 ? $# : 2))
. "$(dirname "$0")/runs.sh"

for system in features bow infersent esim; do
  run $system --config="configs/$system.py:$corpus" --config.seeds=0,1,2,3,4,5 "$@"
done
python -m mednli_jax.report --table=3 --runs="$folder"
