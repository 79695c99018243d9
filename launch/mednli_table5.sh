#!/usr/bin/env bash
# Table 5 of Romanov & Shivade 2018: word embeddings compared with GloVe, for BOW, InferSent and ESIM.
#
#   bash launch/mednli_table5.sh FOLDER CORPUS [NAME=FILE ...] [-- further flags of train for all runs]
#   bash launch/mednli_table5.sh runs/table5 mednli
#   bash launch/mednli_table5.sh runs/table5 demo glove=glove.6B.100d.txt -- --config.vectors.dim=100
#
# Each NAME is a row. Differences are to the row `glove`. NAME= without a file means random vectors. The paper's rows:
# fasttext-wiki fasttext-cc fasttext-bioasq fasttext-mimic glove-bioasq glove-bioasq-mimic wiki-mimic.
# Without any NAME=FILE the script looks for them in $MEDNLI_JAX_DATA/vectors, as NAME.bin, .vec, .txt or .npy
# (fasttext-wiki also as wiki.en, fasttext-cc as crawl-300d-2M), and for GloVe as glove.840B.300d.txt.
# launch/pretrain_vectors.py trains such vectors. For the demo corpus this script trains the vectors of two rows on its
# training sentences: `demo`, and `glove-demo`, which starts from GloVe. Six seeds. Finished runs are skipped.
set -euo pipefail
. "$(dirname "$0")/usage.sh"
if [ $# -lt 2 ]; then
  sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'
  exit 2
fi
folder=$1 corpus=$2
shift 2
names=() files=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  [[ $1 == *=* ]] || { echo "$0: $1 is no NAME=FILE" >&2; exit 2; }
  names+=("${1%%=*}") files+=("${1#*=}")
  shift
done
[ $# -gt 0 ] && shift
. "$(dirname "$0")/runs.sh"
remember "$corpus" "$(for i in "${!names[@]}"; do printf '%q ' "${names[$i]}=${files[$i]}"; done)" '' "$@"

add_found() { # name of a row, further names of its file
  local file
  file=$(vectors_named "$@")
  if [ -n "$file" ]; then
    names+=("$1") files+=("$file")
  else
    echo "$0: no $1.bin, .vec, .txt or .npy in \$MEDNLI_JAX_DATA/vectors: its row stays missing" >&2
  fi
}
if [ ${#names[@]} = 0 ]; then
  add_found glove glove.840B.300d
  add_found fasttext-wiki wiki.en
  add_found fasttext-cc crawl-300d-2M
  for name in fasttext-bioasq fasttext-mimic glove-bioasq glove-bioasq-mimic wiki-mimic; do add_found $name; done
fi

dim=300
for flag in "$@"; do
  case $flag in --config.vectors.dim=*) dim=${flag#*=} ;; esac
done
train_vectors() { # name, then flags
  local out="$folder/vectors/$1.bin"
  [ -z "${DRY_RUN:-}" ] || return 0
  shift
  mkdir -p "$folder/vectors"
  python launch/pretrain_vectors.py --corpora="$corpus" --dim="$dim" --min_count=2 --out="$out" "$@"
}

if [[ $corpus == demo* ]]; then
  train_vectors demo
  names+=(demo) files+=("$folder/vectors/demo.bin")
  for i in "${!names[@]}"; do
    if [ "${names[$i]}" = glove ]; then
      train_vectors glove-demo --initial="${files[$i]}"
      names+=(glove-demo) files+=("$folder/vectors/glove-demo.bin")
    fi
  done
fi

for i in "${!names[@]}"; do
  for model in bow infersent esim; do
    run "${names[$i]}-$model" --config="configs/$model.py:$corpus" $SEEDS "$@" --config.vectors.path="${files[$i]}"
  done
done
table 5
