#!/usr/bin/env bash
# Table 4 of Romanov & Shivade 2018: transfer to MedNLI from SNLI and the genres of MultiNLI; direct, sequential,
# multi-target (private layers), and, not in the paper, mixed batches.
#
#   bash launch/mednli_table4.sh [FOLDER] [CORPUS] [SOURCES] [further flags of train for all runs]
#   bash launch/mednli_table4.sh runs/table4 mednli "snli multinli/slate"
#
# Source and target need the same word vectors: pretrained ones, --config.vectors.path=FILE --config.vectors.dim=N.
# $SOURCE_FLAGS are flags for the source runs alone, e.g. --config.data.limit=20000; $MODES are those trained (default:
# sequential multi mixed; direct needs no training). What is done is skipped.
set -euo pipefail
folder=${1:-runs/table4} corpus=${2:-demo} sources=${3:-snli}
shift $(($# < 3 ? $# : 3))
. "$(dirname "$0")/runs.sh"

for model in bow infersent esim; do
  target=(--config="configs/$model.py:$corpus" --config.seeds=0,1,2 "$@")
  run "baseline-$model" "${target[@]}"
  for source in $sources; do
    name=${source/\//-}
    from="source-$name-$model"
    # shellcheck disable=SC2086 # several flags in one variable
    run "$from" --config="configs/$model.py:$source" --config.seeds=0,1,2 "$@" ${SOURCE_FLAGS:-}
    if ! complete "$name-direct-$model"; then
      python -m mednli_jax.evaluate --run="$folder/$from" "${target[0]}" --workdir="$folder/$name-direct-$model"
    fi
    for mode in ${MODES:-sequential multi mixed}; do
      case $mode in
        sequential) flags=(--config.transfer.init_from="$folder/$from") ;;
        multi) flags=(--config.transfer.init_from="$folder/$from" --config.transfer.private=True) ;;
        mixed) flags=(--config.data.mix="$source" --config.model.heads=2) ;;
        *) echo "$0: MODES: $mode is none of sequential multi mixed" >&2; exit 2 ;;
      esac
      run "$name-$mode-$model" "${target[@]}" "${flags[@]}"
    done
  done
done
python -m mednli_jax.report --table=4 --runs="$folder"
