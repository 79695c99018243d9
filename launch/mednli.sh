#!/usr/bin/env bash
# Romanov & Shivade 2018: Tables 2 to 8, Figure 3, the figures of sections 5.4.1, 6 and 7, and at the end the
# reproduction check, FOLDER/check.html, check.json and check.md, which hold only averages and may be passed on.
#
#   bash launch/mednli.sh [--dry-run] FOLDER CORPUS [TABLE ...] [flags of train for all runs]
#   MEDNLI_JAX_DATA=/data bash launch/mednli.sh runs/mednli mednli
#   bash launch/mednli.sh runs/demo demo 3 7 --config.seeds=0,1
#
# TABLE: numbers of the tables to fill (default: all, and the check). Six seeds, as in the paper. --dry-run lists the
# runs and estimates the hours. Sources and vectors that $MEDNLI_JAX_DATA lacks are left out and named. Finished runs are
# skipped: after an interruption give the same command again. Environment:
#
# NEURAL_FLAGS    flags for the runs of BOW, InferSent and ESIM, e.g. --config.model.hidden_size=100
# FEATURES_FLAGS  flags for the feature-based run
# SOURCES         Table 4: some of snli fiction government slate telephone travel (default: those that are found)
# SOURCE_FLAGS    flags for the runs on the sources, e.g. --config.data.limit=20000
# MODES           Table 4: modes beside direct transfer (default: sequential multi; not in the paper: mixed)
# VECTORS         Table 5: rows as NAME=FILE; NAME= means random vectors. Default: those that are found (docs/data.md).
#                 A demo corpus has further rows, vectors trained on its sentences. Gains are over the runs of Table 3.
#                 --config.vectors.path=FILE --config.vectors.dim=N sets the vectors of all runs that name no others.
# MENTIONS        a file of MetaMap's, by which concepts are linked in Figure 3, Tables 3 (features), 6 and 7, as in the
#                 paper; docs/results-mednli.md describes how to make it. Without it the package's own linker finds fewer
# RETROFIT        Table 6: values of --config.vectors.retrofit (default: concepts ontology unit)
# LEXICON         Table 6: a lexicon of Faruqui et al. 2015 for MultiNLI fiction (default: WordNet)
# KNOWLEDGE       Table 7: values of --config.model.knowledge (default: replace; not in the paper: bias)
# MIMIC           Table 7: vectors trained on MIMIC-III (default: fasttext-mimic of Table 5)
# TOGETHER=1      adds retrofitting with attention, which the paper does not have
set -euo pipefail
. "$(dirname "$0")/runs.sh"
tables=''
while [[ ${1:-} = [2-8] ]]; do tables+=" $1" && shift; done
if [[ ${1:--} != -* ]]; then
  echo "error: '$1' is none of the paper's tables. Fix: give numbers from 2 to 8." >&2
  exit 2
fi
wanted() { [[ " ${tables:-2 3 4 5 6 7 8} " = *" $1 "* ]]; }

seeds=(--config.seeds=0,1,2,3,4,5) # the paper's figures are means of six runs
[[ "$*" != *--config.seeds=* ]] || seeds=() # given twice, seeds add up
read -ra neural <<<"${NEURAL_FLAGS:-}"
read -ra of_features <<<"${FEATURES_FLAGS:-}"
read -ra of_sources <<<"${SOURCE_FLAGS:-}"
read -ra vectors <<<"${VECTORS:-}"
links=() # of runs that use concepts
if [ -n "${MENTIONS:-}" ]; then
  [ -f "$MENTIONS" ] || { echo "error: MENTIONS: there is no file $MENTIONS. Fix: check the path." >&2 && exit 2; }
  links=(--config.knowledge.mentions="$(realpath "$MENTIONS")")
fi
source=${MENTIONS:-"this package's linker, NOT of MetaMap as in the paper (MENTIONS=FILE)"}
[ -n "${DRY_RUN:-}" ] || echo "$0: concepts are those of $source" >&2
flags=("${seeds[@]}" "$@" "${neural[@]}") models='bow infersent esim'
model_run() { # name, model, further flags
  run "$1" train --config="configs/$2.py:$corpus" "${flags[@]}" "${@:3}"
}
# Sources have MedNLI's batch size, as in the published code; for mednli_code they are read as by that code, too.
batch=() code=''
[[ $corpus != mednli* ]] || batch=(--config.train.batch_size=512 --config.train.group=1)
[[ $corpus != *_code ]] || code=_code
source_run() { # name, model, corpus, further flags
  run "$1" train --config="configs/$2.py:$3" "${batch[@]}" "${flags[@]}" "${of_sources[@]}" "${@:4}"
}
there() { compgen -G "${MEDNLI_JAX_DATA:-}/$1" >/dev/null; }
snli='' multinli='' wordnet=''
! there 'snli/*snli_1.0_train*' && ! there 'snli/s1.train*' || snli=1
! there 'multinli/*multinli_*_train*' || multinli=1
! there 'wordnet/*' && [ ! -e /usr/share/wordnet ] || wordnet=1
[[ -n $wordnet || $corpus != mednli* ]] || echo "$0: no wordnet for section 5.4.1" >&2

# Table 2 and Figure 3: the corpus, and the paths between concepts, of whole sentences. Section 5.4.1: those of SNLI.
analyze() { # stats or paths, folder, flags
  [ -n "${DRY_RUN:-}" ] || [ -e "$folder/$2/$1.json" ] || python -m mednli_jax.analyze "$1" "${@:3}" \
    --config.data.max_length=32767 --lengths=train --out="$folder/$2"
}
if wanted 2; then
  try analyze stats corpus --config="configs/esim_kd.py:$corpus" "$@" "${links[@]}"
  try analyze paths corpus --config="configs/esim_kd.py:$corpus" "$@" "${links[@]}"
  if [[ $corpus = mednli* && -n $snli && -n $wordnet ]]; then
    try analyze paths snli --config=configs/esim_kim.py:snli --config.knowledge.direction=undirected \
      --config.knowledge.max_path=0 "${of_sources[@]}"
  fi
fi

# Table 3: the systems, and the classifier of hypotheses alone of section 7. The gains in Tables 4 to 7 are over these
# runs.
if wanted 3; then
  run features train --config="configs/features.py:$corpus" "${links[@]}" "${seeds[@]}" "$@" \
    "${of_features[@]}"
  try run hypothesis train --config="configs/hypothesis_only.py:$corpus" "${seeds[@]}" "$@" --config.vectors.path= \
    --config.vectors.dim=1
fi
if [ "$tables" != ' 2' ]; then
  for model in $models; do model_run "$model" "$model"; done
fi

# Table 4: transfer from SNLI and the genres of MultiNLI.
if wanted 4; then
  sources=${SOURCES:-}
  if [ -z "$sources" ]; then
    sources="${snli:+snli} ${multinli:+fiction government slate telephone travel}"
    [[ -n $snli && -n $multinli ]] ||
      echo "$0: no snli or no multinli in \$MEDNLI_JAX_DATA. Fix: python -m mednli_jax.doctor" >&2
  fi
  for model in $models; do
    for source in $sources; do
      name=${source#multinli/} variant=$source mixed=$source
      case $name in
        snli) variant=snli$code ;;
        fiction | government | slate | telephone | travel) variant=multinli$code/$name mixed=multinli/$name ;;
      esac
      from=source-$name-$model
      try source_run "$from" "$model" "$variant"
      try run "$name-direct-$model" evaluate --run="$folder/$from" --config="configs/$model.py:$corpus" "${flags[@]}"
      for mode in ${MODES:-sequential multi}; do
        case $mode in
          sequential) how=(--config.transfer.init_from="$folder/$from") ;;
          multi) how=(--config.transfer.init_from="$folder/$from" --config.transfer.private=True) ;;
          mixed) how=(--config.data.mix="$mixed" --config.model.heads=2) ;;
          *) echo "error: MODES has $mode. Fix: give some of sequential, multi, mixed." >&2 && exit 2 ;;
        esac
        try model_run "$name-$mode-$model" "$model" "${how[@]}"
      done
    done
  done
fi

# Table 5: word vectors.
found() { # name of a row, other names of its file
  local file
  file=$(vectors_named "$@")
  if [ -n "$file" ]; then vectors+=("$1=$file"); else echo "$0: no $1 in \$MEDNLI_JAX_DATA/vectors" >&2; fi
}
pretrained() { # name of a row, flags: vectors trained on the sentences of the corpus
  local file=$folder/vectors/$1.vec
  vectors+=("$1=$file")
  [ -n "${DRY_RUN:-}" ] || [ -e "$file" ] || python "$launch/pretrain_vectors.py" --corpora="$corpus" --min_count=2 \
    --out="$file" "${@:2}"
}
if wanted 5; then
  if [ ${#vectors[@]} = 0 ] && [[ $corpus != demo* ]]; then
    found fasttext-wiki wiki.en
    found fasttext-cc crawl-300d-2M
    for name in fasttext-bioasq fasttext-mimic glove-bioasq glove-bioasq-mimic wiki-mimic; do found $name; done
  fi
  if [[ $corpus = demo* ]]; then
    dim=300 start=''
    for flag in "$@"; do
      case $flag in
        --config.vectors.dim=*) dim=${flag#*=} ;;
        --config.vectors.path=*) start=${flag#*=} ;;
      esac
    done
    try pretrained demo --dim="$dim"
    [ -z "$start" ] || try pretrained glove-demo --dim="$dim" --initial="$start"
  fi
  for row in "${vectors[@]}"; do
    for model in $models; do
      try model_run "vectors-${row%%=*}-$model" "$model" --config.vectors.path="${row#*=}"
    done
  done
fi

# Table 6: retrofitting, of concepts as in the paper, and of words. The row `unit` only divides vectors by their lengths.
# Section 5.4.1: retrofitting of words on MultiNLI's fiction.
if wanted 6; then
  for model in $models; do
    for retrofit in ${RETROFIT:-concepts ontology unit}; do
      how=(--config.vectors.retrofit="$retrofit")
      [ "$retrofit" != concepts ] || how+=("${links[@]}")
      try model_run "${retrofit/ontology/retrofit}-$model" "$model" "${how[@]}"
    done
  done
  if [[ $corpus = mednli* && -n $multinli && -n ${LEXICON:-}$wordnet ]]; then
    try source_run source-fiction-infersent infersent "multinli$code/fiction"
    try source_run fiction-retrofit-infersent infersent "multinli$code/fiction" \
      --config.vectors.retrofit="${LEXICON:-ontology}" --config.knowledge.ontology=wordnet
  fi
fi

# Table 7: knowledge-directed attention, with the vectors of the other runs and with those of MIMIC-III.
if wanted 7; then
  mimic=${MIMIC:-}
  for row in "${vectors[@]}"; do [[ $row != fasttext-mimic=* ]] || mimic=${mimic:-${row#*=}}; done
  [[ -n $mimic || $corpus != mednli* ]] || mimic=$(vectors_named fasttext-mimic)
  [[ -n $mimic || $corpus != mednli* ]] || echo "$0: no vectors of MIMIC-III for Table 7 (MIMIC=FILE)" >&2
  for model in $models; do
    [ -z "$mimic" ] || try model_run "vectors-fasttext-mimic-$model" "$model" --config.vectors.path="$mimic"
    for knowledge in ${KNOWLEDGE:-replace}; do
      how=(--config.model.knowledge="$knowledge" "${links[@]}")
      try model_run "$knowledge-$model" "$model" "${how[@]}"
      [ -z "$mimic" ] || try model_run "mimic-$knowledge-$model" "$model" "${how[@]}" --config.vectors.path="$mimic"
      [ -z "${TOGETHER:-}" ] || try model_run "retrofit-$knowledge-$model" "$model" "${how[@]}" \
        --config.vectors.retrofit=ontology
    done
  done
fi

# The tables beside the paper's. Table 8, the kinds of errors, is a file for the check.
[ -z "${DRY_RUN:-}" ] || exit 0
table() {
  python -m mednli_jax.report --table="$1" --runs="$folder"
}
kinds_of_error() {
  python -m mednli_jax.report "$folder"/{bow,infersent,esim} --compare --categories --json >"$folder/$1.part" &&
    mv "$folder/$1.part" "$folder/$1"
}
for number in 3 4 5 6 7; do
  ! wanted $number || try table $number
done
! wanted 8 || try kinds_of_error categories.json
if [ -z "$tables" ]; then
  python -m mednli_jax.report --table=mednli --runs="$folder" --out="$folder/check.html" --markdown |
    tee "$folder/check.md"
fi
end
