#!/usr/bin/env bash
# Table 4 of Šuster & Daelemans 2018: SA-Anonym, SA-Ent, GA-Anonym, GA-Ent, GA-NoEnt and the baselines, beside the
# paper's figures; GA-Anonym against the most frequent phrase by paired bootstrap.
#
#   bash launch/clicr_table4.sh [FOLDER] [CORPUS] [further flags of train for all runs]
#   VECTORS=vectors/clicr.vec bash launch/clicr_table4.sh runs/clicr_table4 clicr --config.seeds=0,1,2
#
# CORPUS: clicr, demo (default) or a folder in CliCR's layout. $VECTORS: word vectors for the baselines' similarities and
# the embedding scores; of a corpus that is not clicr also those that the readers start from, which otherwise are random.
# $BASELINE_FLAGS: further flags of launch/cloze_baselines.py. What is done is skipped.
set -euo pipefail
folder=${1:-runs/clicr_table4} corpus=${2:-demo}
shift $(($# < 2 ? $# : 2))
launch=$(dirname "$0")
. "$launch/runs.sh"

named=$corpus variant=$corpus files=()
case $corpus in
demo) named=demo_cloze ;;
clicr) ;;
*) variant=file files=(--config.data.dir="$corpus") ;;
esac
if [ -n "${VECTORS:-}" ]; then
  files+=(--config.data.answer_vectors="$VECTORS")
  [ "$corpus" = clicr ] || files+=(--config.vectors.path="$VECTORS")
fi

for system in sa_anonym sa_ent ga_anonym ga_ent ga_noent; do
  run $system --config="configs/$system.py:$variant" "${files[@]}" "$@"
done
if [ ! -e "$folder/baselines/baselines.test.json" ]; then
  # shellcheck disable=SC2086 # several flags in one variable
  python "$launch/cloze_baselines.py" --corpus="$named" --vectors="${VECTORS:-}" --no-paper --out="$folder/baselines" \
    ${BASELINE_FLAGS:-}
fi
python "$launch/compare_cloze.py" --runs="$folder"
echo
python -m mednli_jax.report --table=clicr4 --runs="$folder"
