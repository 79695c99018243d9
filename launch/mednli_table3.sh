#!/usr/bin/env bash
# Table 3 of Romanov & Shivade 2018: features, BOW, InferSent, ESIM.
#
#   bash launch/mednli_table3.sh [FOLDER] [CORPUS] [further flags of train for all runs]
#
# $NEURAL_FLAGS: flags for all runs except the feature-based ones, e.g. --config.model.hidden_size=100. $FEATURES_FLAGS:
# flags for the feature-based runs. The default is the demo corpus with six seeds: about 20 minutes on 2 cores. Finished
# runs are skipped.
set -euo pipefail
. "$(dirname "$0")/usage.sh"
folder=${1:-runs/table3} corpus=${2:-demo}
shift $(($# < 2 ? $# : 2))
. "$(dirname "$0")/runs.sh"
remember "$corpus" '' 'NEURAL_FLAGS FEATURES_FLAGS' "$@"

for system in features bow infersent esim; do
  own=${NEURAL_FLAGS:-}
  [ $system = features ] && own=${FEATURES_FLAGS:-}
  # shellcheck disable=SC2086 # several flags in one variable
  run $system --config="configs/$system.py:$corpus" $SEEDS "$@" $own
done
table 3
