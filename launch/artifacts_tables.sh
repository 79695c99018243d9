#!/usr/bin/env bash
# Tables 1 to 6 of Herlihy & Rudinger 2021 (MedNLI Is Not Immune) on a corpus: hypothesis-only and premise-hypothesis
# fastText, the analyses of words, lengths and heuristics (report.html), adversarial filtering of both inputs, and the
# classifiers by partition. Prints Tables 1, 2 and 6 beside the paper's.
#
#   bash launch/artifacts_tables.sh [FOLDER] [CORPUS] [further flags of train for both runs]
#   bash launch/artifacts_tables.sh runs/artifacts-mednli mednli
#
# CORPUS: demo_full (default), demo, snli, mednli. Finished parts are skipped, interrupted ones are continued.
# VECTORS="--config.vectors.path=FILE --config.vectors.dim=100": word vectors of the filtering, else the config's.
# TEXT=raw scores the partitions on the text as trained; by default the words of an entity are joined, as published.
# SPANS=FILE: entities of any tagger (docs/results-artifacts.md); by default the concepts of the ontology.
# ANALYZE="--stop_words --entities=parts": further flags of the analyses.
set -euo pipefail
umask 077
. "$(dirname "$0")/usage.sh"
folder=${1:-runs/artifacts} corpus=${2:-demo_full}
shift $(($# < 2 ? $# : 2))
. "$(dirname "$0")/runs.sh"
mkdir -p "$folder"

run hypothesis --config="configs/hypothesis_only.py:$corpus" "$@"
run pair --config="configs/premise_hypothesis_fasttext.py:$corpus" "$@"

# The flag that continues an interrupted filtering in a folder, where there is one.
resumed() { [ -e "$1/aflite.state.npz" ] && echo --resume || true; }

text=${TEXT:-merged}
case $text in
  merged) text="--merged ${SPANS:+--spans=$SPANS}" ;;
  raw) text='' ;;
  *) echo "error: TEXT=$text. Fix: give merged or raw." >&2; exit 2 ;;
esac

# shellcheck disable=SC2046,SC2086 # several flags, or none
if [ ! -e "$folder/analysis/report.html" ]; then
  python -m mednli_jax.analyze all --corpus="$corpus" --out="$folder/analysis" $(resumed "$folder/analysis") \
    ${VECTORS:-} ${SPANS:+--spans=$SPANS} ${ANALYZE:-} >&2
fi
# shellcheck disable=SC2046,SC2086
if [ ! -e "$folder/analysis-pair/aflite.json" ]; then
  python -m mednli_jax.analyze aflite --corpus="$corpus" --input=pair --out="$folder/analysis-pair" \
    $(resumed "$folder/analysis-pair") ${VECTORS:-} >&2
fi
for input in hypothesis pair; do
  lists=$folder/analysis
  [ $input = pair ] && lists=$folder/analysis-pair
  for split in dev test; do
    to=$folder/partition-$input-$split.json
    [ -e "$to" ] && continue
    # shellcheck disable=SC2086
    python -m mednli_jax.evaluate --run="$folder/$input" --split=$split --json $text \
      --partition="$lists/easy.txt,$lists/difficult.txt" >"$to.part"
    mv "$to.part" "$to"
  done
done
python - "$folder" <<'PY'
import sys

from mednli_jax.analysis.artifacts.tables import lines

print("\n".join(lines(sys.argv[1])))
PY
echo "Tables 3 to 5: $folder/analysis/report.html" >&2
