#!/usr/bin/env bash
# Tables 6 and 7 of Romanov & Shivade 2018: retrofitting and knowledge-directed attention, for BOW, InferSent and ESIM,
# and what the paper does not have: learned weights per path length, both together, BOW. On MedNLI:
#
#   bash launch/mednli_table6_7.sh runs/table6_7 mednli --config.knowledge.ontology=umls
#
#   bash launch/mednli_table6_7.sh [FOLDER] [CORPUS] [further flags of train for all runs]
#
# The default is the demo corpus, 3 seeds: about an hour on 2 cores. What is done is skipped; an interrupted run goes on.
set -euo pipefail
folder=${1:-runs/table6_7} corpus=${2:-demo}
shift $(($# < 2 ? $# : 2))
. "$(dirname "$0")/runs.sh"

for model in bow infersent esim; do
  for knowledge in none replace bias; do
    flags=(--config="configs/${model}_kd.py:$corpus" --config.model.knowledge=$knowledge --config.seeds=0,1,2 "$@")
    run "$knowledge-$model" "${flags[@]}"
    retrofitted=retrofit-$knowledge-$model
    [ $knowledge = none ] && retrofitted=retrofit-$model
    run "$retrofitted" "${flags[@]}" --config.vectors.retrofit=ontology
  done
done
python -m mednli_jax.report --table=6 --runs="$folder"
python -m mednli_jax.report --table=7 --runs="$folder"
python launch/knowledge_table.py "$folder"
