#!/usr/bin/env bash
# Tables 1 to 8 of Alghanmi et al. 2021: F1 of the positive class on DisKnE, with the paper's figures. One model for each
# disease; all are trained in one program.
#
#   bash launch/diskne_tables.sh [FOLDER] [CORPUS] [further flags of train for all runs]
#   WEIGHTS="biobert=weights/biobert scibert=weights/scibert" bash launch/diskne_tables.sh runs/diskne mednli
#
# CORPUS: demo (default), mednli (the published annotations, with MedNLI and the UMLS in $MEDNLI_JAX_DATA) or a folder
# that launch/build_diskne.py made. $SYSTEMS: some of BOW, ESIM, ESIM-KD, ESIM-hypothesis (default: all). $BERT=1 adds
# BERT. $WEIGHTS adds BERT with pretrained weights, one run for each NAME: NAME=PLACE ..., or one PLACE; a PLACE is a
# folder in Hugging Face's layout or an installed package. $BERT_FLAGS: further flags for BERT. $TABLE7=1 adds the runs of
# Table 7 (all wordings), $TABLE8=1 those of Table 8 (random negatives), of ESIM or of BERT with the first weights.
# Finished runs are skipped.
set -euo pipefail
. "$(dirname "$0")/usage.sh"
root=${1:-runs/diskne} corpus=${2:-demo}
shift $(($# < 2 ? $# : 2))
launch=$(dirname "$0")
folder=$root/main
. "$launch/runs.sh"

variant=$corpus files=()
case $corpus in
demo | mednli) ;;
*) variant=file files=(--config.data.dir="$corpus") ;;
esac
read -ra weights <<<"${WEIGHTS:-}"
if [ ${#weights[@]} -gt 1 ] && [[ " ${WEIGHTS}" =~ [[:space:]][^=[:space:]]+([[:space:]]|$) ]]; then
  echo "$0: several weights need names. Fix: WEIGHTS=\"NAME=PLACE NAME=PLACE\"." >&2
  exit 2
fi

fold_run() { # name, config, flags
  local name=$1 config=$2
  shift 2
  run "$name" --config="configs/$config.py:$variant" "${files[@]}" "$@"
}

for system in ${SYSTEMS:-BOW ESIM ESIM-KD ESIM-hypothesis}; do
  case $system in
  BOW) fold_run BOW diskne_bow "$@" ;;
  ESIM) fold_run ESIM diskne_esim "$@" ;;
  ESIM-KD) fold_run ESIM-KD diskne_esim_kd "$@" ;;
  ESIM-hypothesis) fold_run ESIM-hypothesis diskne_esim --config.data.hypothesis_only=True "$@" ;;
  *)
    echo "unknown system '$system'. Fix: SYSTEMS has BOW, ESIM, ESIM-KD or ESIM-hypothesis." >&2
    exit 2
    ;;
  esac
done
strongest=diskne_esim own=()
if [ -n "${BERT:-}${WEIGHTS:-}" ]; then
  read -ra bert_flags <<<"${BERT_FLAGS:-}"
  strongest=diskne_bert
  for given in "${weights[@]:-}"; do
    name=BERT of_weights=("${bert_flags[@]}")
    [[ $given != *=* ]] || name=${given%%=*}
    [ -z "$given" ] || of_weights=(--config.model.weights="${given#*=}" --config.train.learning_rate=2e-5 "${bert_flags[@]}")
    fold_run "$name" diskne_bert "$@" "${of_weights[@]}"
    [ ${#own[@]} -gt 0 ] || own=("${of_weights[@]}")
  done
fi
for number in 1 2 3 4 5 6; do
  python -m mednli_jax.report --table=diskne$number --runs="$folder"
  echo
done

if [ -n "${TABLE7:-}" ]; then
  folder=$root/table7
  for wording in full name; do
    fold_run $wording $strongest "${own[@]}" --config.diskne.wording=$wording "$@"
    fold_run hypothesis-$wording $strongest "${own[@]}" --config.diskne.wording=$wording \
      --config.data.hypothesis_only=True "$@"
  done
  python -m mednli_jax.report --table=diskne7 --runs="$folder"
fi
if [ -n "${TABLE8:-}" ]; then
  folder=$root/table8
  fold_run "${strongest#diskne_}" $strongest "${own[@]}" --config.diskne.negatives=random "$@"
  python -m mednli_jax.report --table=diskne8 --runs="$folder"
fi
