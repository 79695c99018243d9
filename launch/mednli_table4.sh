#!/usr/bin/env bash
# Table 4 of Romanov & Shivade 2018: transfer to MedNLI from SNLI and the genres of MultiNLI; direct, sequential,
# multi-target (private layers), and, not in the paper, mixed batches.
#
#   bash launch/mednli_table4.sh [FOLDER] [CORPUS] [SOURCES] [further flags of train for all runs]
#   bash launch/mednli_table4.sh runs/table4 mednli "snli slate"
#
# SOURCES: some of snli fiction government slate telephone travel, in quotes; by default ("") those with files in
# $MEDNLI_JAX_DATA. Source and target need the same pretrained word vectors: --config.vectors.path=FILE
# --config.vectors.dim=N. $SOURCE_FLAGS: flags for the source runs only, e.g. --config.data.limit=20000. $MODES: modes that
# are trained (default: sequential multi mixed; direct needs no training). For MedNLI the sources are trained with its
# batch size, 512, as in the paper. Finished runs are skipped.
set -euo pipefail
. "$(dirname "$0")/usage.sh"
folder=${1:-runs/table4} corpus=${2:-demo} sources=${3:-}
shift $(($# < 3 ? $# : 3))
. "$(dirname "$0")/runs.sh"

there() { compgen -G "${MEDNLI_JAX_DATA:-}/$1" >/dev/null; }
if [ -z "$sources" ]; then
  ! there 'snli/*snli_1.0_train*' && ! there 'snli/s1.train*' || sources=snli
  ! there 'multinli/*multinli_*_train*' || sources+=" fiction government slate telephone travel"
  for source in snli multinli; do
    [[ $sources = *${source/multinli/slate}* ]] ||
      echo "$0: no $source in \$MEDNLI_JAX_DATA: its rows stay missing. Fix: python -m mednli_jax.doctor" >&2
  done
fi
remember "$corpus" "$sources" SOURCE_FLAGS "$@"

batch=() code=''
[[ $corpus != mednli* ]] || batch=(--config.train.batch_size=512)
[[ $corpus != *_code ]] || code=_code # as the published code treats sources, too
for model in bow infersent esim; do
  target=(--config="configs/$model.py:$corpus" $SEEDS "$@")
  run "baseline-$model" "${target[@]}"
  for source in $sources; do
    # Rows of the table are called by the genre alone; a config's variant is multinli/GENRE.
    name=${source#multinli/} variant=$source mixed=$source
    case $name in
      snli) variant=snli$code ;;
      fiction | government | slate | telephone | travel) variant=multinli$code/$name mixed=multinli/$name ;;
    esac
    from="source-$name-$model"
    # shellcheck disable=SC2086 # several flags in one variable
    run "$from" --config="configs/$model.py:$variant" $SEEDS "${batch[@]}" "$@" ${SOURCE_FLAGS:-}
    direct "$name-direct-$model" "$from" "${target[@]}"
    for mode in ${MODES:-sequential multi mixed}; do
      case $mode in
        sequential) flags=(--config.transfer.init_from="$folder/$from") ;;
        multi) flags=(--config.transfer.init_from="$folder/$from" --config.transfer.private=True) ;;
        mixed) flags=(--config.data.mix="$mixed" --config.model.heads=2) ;;
        *) echo "$0: MODES: $mode is none of sequential multi mixed" >&2; exit 2 ;;
      esac
      run "$name-$mode-$model" "${target[@]}" "${flags[@]}"
    done
  done
done
table 4
