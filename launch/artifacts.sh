#!/usr/bin/env bash
# Tables 1 to 6 of Herlihy & Rudinger 2021 (MedNLI Is Not Immune) on a corpus: hypothesis-only and premise-hypothesis
# fastText, the analyses of words, lengths and heuristics (report.html), adversarial filtering of both inputs, and the
# classifiers by partition. Prints Tables 1, 2 and 6 beside the paper's.
#
#   bash launch/artifacts.sh [--dry-run] FOLDER CORPUS [flags of train for both runs]
#   SPANS=spans.tsv VECTORS=--config.vectors.path=mimic.vec ANALYZE=--entities=parts \
#     bash launch/artifacts.sh runs/artifacts mednli      # the paper's own setting: docs/results-artifacts.md
#
# CORPUS: demo_full, demo, snli, mednli. Finished parts are skipped, interrupted ones are continued. Concepts are those
# of MeSH, as in the paper, for every corpus. Take a new FOLDER for other values of these variables:
#
# VECTORS="--config.vectors.path=FILE --config.vectors.dim=100"    word vectors of the filtering, else the config's
# TEXT=raw                              scores the full set and both partitions on the text used in training; without
#                                       it entities are joined
# SPANS=FILE                            entities of any tagger (docs/results-artifacts.md), else MeSH's concepts
# ANALYZE="--stop_words --entities=parts"    further flags of the analyses
set -euo pipefail
. "$(dirname "$0")/runs.sh"
read -ra vectors <<<"${VECTORS:-}"
read -ra more <<<"${ANALYZE:-}"
spans=(${SPANS:+"--spans=$SPANS"})
case ${TEXT:-merged} in
  merged) text=(--merged "${spans[@]}") ;;
  raw) text=() ;;
  *) echo "error: TEXT=$TEXT. Fix: give merged or raw." >&2 && exit 2 ;;
esac

# The two classifiers.
run hypothesis train --config="configs/hypothesis_only.py:$corpus" "$@"
run pair train --config="configs/premise_hypothesis_fasttext.py:$corpus" "$@"
[ -z "${DRY_RUN:-}" ] || exit 0

# The analyses, with the filtering of hypotheses; and the filtering of pairs.
analyze() { # file that it writes, analysis, flags; an interrupted filtering goes on
  local file=$folder/$1 out=$folder/${1%/*} again=()
  [ ! -e "$out/aflite.state.npz" ] || again=(--resume)
  [ -e "$file" ] || python -m mednli_jax.analyze "${@:2}" --corpus="$corpus" --out="$out" "${again[@]}" \
    "${vectors[@]}" >&2
}
analyze analysis/report.html all "${spans[@]}" "${more[@]}"
analyze analysis-pair/aflite.json aflite --input=pair "${spans[@]}" "${more[@]}"

# The classifiers on the easy and the difficult part.
for split in dev test; do
  for input in hypothesis pair; do
    parts=$folder/analysis file=$folder/partition-$input-$split.json
    [ $input = hypothesis ] || parts=$folder/analysis-pair
    if [ ! -e "$file" ]; then
      python -m mednli_jax.evaluate --run="$folder/$input" --split=$split --json "${text[@]}" \
        --partition="$parts/easy.txt,$parts/difficult.txt" >"$file.part"
      mv "$file.part" "$file"
    fi
  done
done
python - "$folder" <<'PY'
import sys

from mednli_jax import cli
from mednli_jax.artifacts.tables import artifact_lines

print("\n".join(artifact_lines(sys.argv[1], cli.read_config)))
PY
echo "Tables 3 to 5: $folder/analysis/report.html" >&2
