#!/usr/bin/env bash
# Tables 6 and 7 of Romanov & Shivade 2018: retrofitting and knowledge-directed attention, for BOW, InferSent and ESIM.
# Rows that the paper does not have: learned weights per path length (bias), retrofitting with attention, BOW.
#
#   bash launch/mednli_table6_7.sh [FOLDER] [CORPUS] [further flags of train for all runs]
#   bash launch/mednli_table6_7.sh runs/table6_7 mednli
#
# $MIMIC: vectors trained on MIMIC-III, for the other rows of Table 7; by default fasttext-mimic.bin, .vec, .txt or .npy in
# $MEDNLI_JAX_DATA/vectors. Without such a file these rows are missing. $RETROFIT: values of --config.vectors.retrofit to
# train. $KNOWLEDGE: values of --config.model.knowledge to train (default: none replace bias). $TOGETHER=0 leaves out
# retrofitting with attention. The default is the demo corpus with six seeds: about two hours on 2 cores. Finished runs
# are skipped, interrupted runs are continued.
set -euo pipefail
. "$(dirname "$0")/usage.sh"
folder=${1:-runs/table6_7} corpus=${2:-demo}
shift $(($# < 2 ? $# : 2))
. "$(dirname "$0")/runs.sh"
remember "$corpus" '' MIMIC "$@"
mimic=${MIMIC:-}
if [ -z "$mimic" ] && [ "${corpus%%_*}" = mednli ]; then
  mimic=$(vectors_named fasttext-mimic)
  [ -n "$mimic" ] || echo "$0: no vectors of MIMIC-III (\$MIMIC): their rows of Table 7 stay missing" >&2
fi

for model in bow infersent esim; do
  for knowledge in ${KNOWLEDGE:-none replace bias}; do
    flags=(--config="configs/${model}_kd.py:$corpus" --config.model.knowledge="$knowledge" $SEEDS "$@")
    run "$knowledge-$model" "${flags[@]}"
    [ -z "$mimic" ] || run "mimic-$knowledge-$model" "${flags[@]}" --config.vectors.path="$mimic"
    if [ "$knowledge" = none ]; then
      for retrofit in ${RETROFIT:-ontology unit concepts}; do
        run "${retrofit/ontology/retrofit}-$model" "${flags[@]}" --config.vectors.retrofit="$retrofit"
      done
    elif [ "${TOGETHER:-1}" = 1 ]; then
      run "retrofit-$knowledge-$model" "${flags[@]}" --config.vectors.retrofit=ontology
    fi
  done
done
table 6
table 7
[ -n "${DRY_RUN:-}" ] || python launch/knowledge_table.py "$folder"
