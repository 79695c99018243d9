#!/usr/bin/env bash
# Table 4 of Šuster & Daelemans 2018: SA-Anonym, SA-Ent, GA-Anonym, GA-Ent, GA-NoEnt and the baselines, with the paper's
# figures. A paired bootstrap compares GA-Anonym with the most frequent phrase.
#
#   bash launch/clicr_table4.sh [FOLDER] [CORPUS] [further flags of train for all runs]
#   VECTORS=vectors/clicr.vec bash launch/clicr_table4.sh runs/clicr_table4 clicr --config.seeds=0,1,2
#
# FOLDER: of the runs (default runs/clicr_table4). CORPUS: clicr, demo (default) or a folder in CliCR's layout.
# $VECTORS: a file of word vectors for the readers, the similarities of the baselines and the embedding scores. For clicr
# the default is clicr.vec or pubmed_mimic_200d.txt in $MEDNLI_JAX_DATA/vectors. Without vectors the readers start from
# random ones, and the table has no similarities and embedding scores. Vectors of other sizes than 200 (demo: 64) need
# --config.vectors.dim=SIZE.
# $BASELINE_FLAGS: further flags of launch/cloze_baselines.py, e.g. --vectors=FILE if the baselines use other vectors.
# Finished runs are skipped. With $DRY_RUN the runs are listed.
. "$(dirname "$0")/usage.sh"
set -euo pipefail
folder=${1:-runs/clicr_table4} corpus=${2:-demo}
shift $(($# < 2 ? $# : 2))
launch=$(dirname "$0")
. "$launch/runs.sh"

named=$corpus variant=$corpus files=() vectors=${VECTORS:-}
case $corpus in
demo) named=demo_cloze ;;
clicr) vectors=${vectors:-$(vectors_named clicr pubmed_mimic_200d)} ;;
*) variant=file files=(--config.data.dir="$corpus") ;;
esac
files+=(--config.vectors.path="$vectors" --config.data.answer_vectors="$vectors")
if [ -n "$vectors" ]; then
  echo "word vectors: $vectors" >&2
else
  echo "no word vectors: the readers start from random ones, and there are neither similarities nor embedding" \
    "scores. Fix: give VECTORS=FILE." >&2
fi

for system in sa_anonym sa_ent ga_anonym ga_ent ga_noent; do
  run $system --config="configs/$system.py:$variant" "${files[@]}" "$@"
done
[ -z "${DRY_RUN:-}" ] || exit 0
if [ ! -e "$folder/baselines/baselines.test.json" ]; then
  # shellcheck disable=SC2086 # several flags in one variable
  python "$launch/cloze_baselines.py" --corpus="$named" --vectors="$vectors" --no-paper --out="$folder/baselines" \
    ${BASELINE_FLAGS:-}
fi
python "$launch/compare_cloze.py" --runs="$folder"
echo
table clicr4
