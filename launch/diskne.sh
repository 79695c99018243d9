#!/usr/bin/env bash
# Tables 1 to 8 of Alghanmi et al. 2021: F1 of the positive class on DisKnE, with the paper's figures. One model for
# each disease; all are trained in one program.
#
#   bash launch/diskne.sh [--dry-run] FOLDER CORPUS [flags of train for all runs]
#   WEIGHTS="biobert=weights/biobert scibert=weights/scibert" bash launch/diskne.sh runs/diskne mednli
#
# CORPUS: demo, mednli (the published annotations, with MedNLI and the UMLS in $MEDNLI_JAX_DATA) or a folder that
# launch/build_diskne.py made. Finished runs are skipped. Environment:
#
# SYSTEMS     some of BOW, ESIM, ESIM-KD, ESIM-hypothesis (default: all)
# BERT=1      adds BERT with random weights
# WEIGHTS     adds BERT with pretrained weights, one run for each NAME: NAME=PLACE ..., or one PLACE; a PLACE is a
#             folder in Hugging Face's layout or an installed package
# BERT_FLAGS  further flags for BERT
# TABLE7=1    adds the runs of Table 7 (all wordings), of ESIM or of BERT with the first weights
# TABLE8=1    adds those of Table 8 (random negatives), of the same model
set -euo pipefail
. "$(dirname "$0")/runs.sh"
root=$folder folder=$root/main variant=$corpus files=()
case $corpus in
  demo | mednli) ;;
  *) variant=file files=(--config.data.dir="$corpus") ;;
esac
read -ra weights <<<"${WEIGHTS:-}"
read -ra bert_flags <<<"${BERT_FLAGS:-}"
if [ ${#weights[@]} -gt 1 ] && [[ " ${WEIGHTS}" =~ [[:space:]][^=[:space:]]+([[:space:]]|$) ]]; then
  echo "error: several weights need names. Fix: WEIGHTS=\"NAME=PLACE NAME=PLACE\"." >&2
  exit 2
fi
folds() { # name, config, flags
  run "$1" train --config="configs/$2.py:$variant" "${files[@]}" "${@:3}"
}
table() {
  [ -z "${DRY_RUN:-}" ] || return 0
  python -m mednli_jax.report --table="diskne$1" --runs="$folder"
  echo
}

# Tables 1 to 6.
for system in ${SYSTEMS:-BOW ESIM ESIM-KD ESIM-hypothesis}; do
  case $system in
    BOW) folds BOW diskne_bow "$@" ;;
    ESIM) folds ESIM diskne_esim "$@" ;;
    ESIM-KD) folds ESIM-KD diskne_esim_kd "$@" ;;
    ESIM-hypothesis) folds ESIM-hypothesis diskne_esim --config.data.hypothesis_only=True "$@" ;;
    *) echo "error: SYSTEMS has $system. Fix: give BOW, ESIM, ESIM-KD or ESIM-hypothesis." >&2 && exit 2 ;;
  esac
done
strongest=diskne_esim own=() # of Tables 7 and 8
[ -z "${BERT:-}" ] || [ ${#weights[@]} -gt 0 ] || weights=(BERT=)
for given in "${weights[@]}"; do
  name=BERT place=${given#*=} how=("${bert_flags[@]}")
  [[ $given != *=* ]] || name=${given%%=*}
  [ -z "$place" ] || how=(--config.model.weights="$place" --config.train.learning_rate=2e-5 "${bert_flags[@]}")
  folds "$name" diskne_bert "$@" "${how[@]}"
  [ $strongest = diskne_bert ] || own=("${how[@]}")
  strongest=diskne_bert
done
for number in 1 2 3 4 5 6; do table $number; done

# Table 7: wordings of the hypothesis, with and without the premise.
if [ -n "${TABLE7:-}" ]; then
  folder=$root/table7
  for wording in full name; do
    folds $wording $strongest "${own[@]}" --config.diskne.wording=$wording "$@"
    folds hypothesis-$wording $strongest "${own[@]}" --config.diskne.wording=$wording \
      --config.data.hypothesis_only=True "$@"
  done
  table 7
fi

# Table 8: random negatives.
if [ -n "${TABLE8:-}" ]; then
  folder=$root/table8
  folds "${strongest#diskne_}" $strongest "${own[@]}" --config.diskne.negatives=random "$@"
  table 8
fi
