#!/usr/bin/env bash
# Tables 1 to 8 of Alghanmi et al. 2021: F1 of the positive class on DisKnE, with the paper's figures. One model for
# each disease; all are trained in one program.
#
#   bash launch/diskne.sh [--dry-run] FOLDER CORPUS [flags of train for all runs]
#   SYSTEMS=" " WEIGHTS="biobert=weights/biobert scibert=weights/scibert" bash launch/diskne.sh runs/diskne mednli
#
# CORPUS: demo, mednli (the published annotations, with MedNLI and the UMLS in $MEDNLI_JAX_DATA) or a folder that
# launch/build_diskne.py made. Finished runs are skipped. Environment:
#
# SYSTEMS     some of BOW, ESIM, ESIM-KD, ESIM-hypothesis (default: all; " ": none). They are not in the paper
# BERT=1      adds BERT with random weights
# WEIGHTS     adds BERT with pretrained weights, one run for each NAME: NAME=PLACE ..., or one PLACE; a PLACE is a
#             folder in Hugging Face's layout or an installed package
# BERT_FLAGS  further flags for BERT
# TABLE7=1    adds the runs of Table 7 (all wordings), of ESIM or of BERT with the first weights; not for a folder, whose
#             files decide the wording and the negatives
# TABLE8=1    adds those of Table 8 (random negatives), of ESIM or of BERT with each of the weights; not for a folder
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
[ -z "${BERT:-}" ] || [ ${#weights[@]} -gt 0 ] || weights=(BERT=)
bert() { # name of a run, its weights as NAME=PLACE or PLACE, flags: the user's come after the rate, and so replace it
  local place=${2#*=} pretrained=()
  [ -z "$place" ] || pretrained=(--config.model.weights="$place" --config.train.learning_rate=2e-5)
  folds "$1" diskne_bert "${pretrained[@]}" "${@:3}" "${bert_flags[@]}"
}
berts() { # flags: a run for each of the weights
  local given name
  for given in "${weights[@]}"; do
    name=BERT
    [[ $given != *=* ]] || name=${given%%=*}
    bert "$name" "$given" "$@"
  done
}
berts "$@"
for number in 1 2 3 4 5 6; do table $number; done

# Table 7: wordings of the hypothesis, with and without the premise.
if [ -n "${TABLE7:-}" ]; then
  folder=$root/table7
  strongest() { # name, flags
    if [ ${#weights[@]} -gt 0 ]; then bert "$1" "${weights[0]}" "${@:2}"; else folds "$1" diskne_esim "${@:2}"; fi
  }
  for wording in full name; do
    strongest $wording --config.diskne.wording=$wording "$@"
    strongest hypothesis-$wording --config.diskne.wording=$wording --config.data.hypothesis_only=True "$@"
  done
  table 7
fi

# Table 8: random negatives.
if [ -n "${TABLE8:-}" ]; then
  folder=$root/table8
  berts --config.diskne.negatives=random "$@"
  [ ${#weights[@]} -gt 0 ] || folds ESIM diskne_esim --config.diskne.negatives=random "$@"
  table 8
fi
