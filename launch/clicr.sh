#!/usr/bin/env bash
# Table 4 of Šuster & Daelemans 2018: SA-Anonym, SA-Ent, GA-Anonym, GA-Ent, GA-NoEnt and the baselines (random, most
# frequent and most similar entity, a 4-gram language model, upper bounds), with the paper's figures. A paired bootstrap
# compares GA-Anonym with the most frequent phrase. Each reader is trained with three seeds.
#
#   bash launch/clicr.sh [--dry-run] FOLDER CORPUS [flags of train for all readers]
#   VECTORS=vectors/clicr.vec bash launch/clicr.sh runs/clicr clicr
#
# CORPUS: clicr, demo or a folder in CliCR's layout. Finished runs are skipped; --dry-run lists them. Environment:
#
# VECTORS         word vectors for the readers, the similarities of the baselines and the embedding scores. For clicr
#                 the default is clicr.vec or pubmed_mimic_200d.txt in $MEDNLI_JAX_DATA/vectors. "search" first trains
#                 vectors on the corpus, as in Appendix A (launch/pretrain_vectors.py, needs
#                 `pip install 'mednli_jax[embeddings]'`). Without vectors the readers start from random ones, and the
#                 table has no similarities and embedding scores. Vectors of other sizes than 200 (demo: 64) need
#                 --config.vectors.dim=SIZE.
# SYSTEMS         some of sa_anonym sa_ent ga_anonym ga_ent ga_noent (default: all); none: the baselines alone
# BASELINE_FLAGS  further flags of launch/cloze_baselines.py, e.g. --vectors=FILE if the baselines use other vectors
set -euo pipefail
. "$(dirname "$0")/runs.sh"
named=$corpus variant=$corpus files=() vectors=${VECTORS:-} dim=200
case $corpus in
  demo | demo_cloze) named=demo_cloze variant=demo dim=64 ;;
  clicr) vectors=${vectors:-$(vectors_named clicr pubmed_mimic_200d)} ;;
  *) variant=file files=(--config.data.dir="$corpus") ;;
esac
if [ "$vectors" = search ]; then
  vectors=$folder/vectors/best.vec
  [ -n "${DRY_RUN:-}" ] || [ -e "$vectors" ] ||
    python "$launch/pretrain_vectors.py" --search="$named" --dims="$dim" --min_count=2 --out="$folder/vectors"
fi
files+=(--config.vectors.path="$vectors" --config.data.answer_vectors="$vectors")
if [ -n "$vectors" ]; then
  echo "word vectors: $vectors" >&2
else
  echo "no word vectors: the readers start from random ones, and there are neither similarities nor embedding" \
    "scores. Fix: give VECTORS=FILE." >&2
fi

seeds=(--config.seeds=0,1,2)
[[ "$*" != *--config.seeds=* ]] || seeds=() # given twice, seeds add up
systems=${SYSTEMS:-sa_anonym sa_ent ga_anonym ga_ent ga_noent}
for system in ${systems/none/}; do
  run "$system" train --config="configs/$system.py:$variant" "${files[@]}" "${seeds[@]}" "$@"
done
[ -z "${DRY_RUN:-}" ] || exit 0
if [ ! -e "$folder/baselines/baselines.test.json" ]; then
  # shellcheck disable=SC2086 # several flags in one variable
  python "$launch/cloze_baselines.py" --corpus="$named" --vectors="$vectors" --no-paper --out="$folder/baselines" \
    ${BASELINE_FLAGS:-}
fi
if [[ $systems = *ga_anonym* ]]; then python "$launch/compare_cloze.py" --runs="$folder" && echo; fi
python -m mednli_jax.report --table=clicr4 --runs="$folder"
