#!/usr/bin/env bash
# Table 4 of Šuster & Daelemans 2018, its baselines: random, most frequent and most similar entity (and word), a 4-gram
# language model, upper bounds. Prints the table with the paper's figures of all systems and humans.
#
#   bash launch/clicr_baselines.sh [FOLDER] [CORPUS] [VECTORS] [further flags of launch/cloze_baselines.py]
#   bash launch/clicr_baselines.sh runs/clicr_baselines clicr vectors/clicr.vec
#
# CORPUS: clicr, demo_cloze (default) or a folder in CliCR's layout. VECTORS: a file; "search": first train vectors on the
# corpus, as in Appendix A (launch/cloze_vectors.py, needs `pip install 'mednli_jax[embeddings]'`); "": leave out the
# similarities, which need vectors.
. "$(dirname "$0")/usage.sh"
set -euo pipefail
folder=${1:-runs/clicr_baselines} corpus=${2:-demo_cloze} vectors=${3:-}
shift $(($# < 3 ? $# : 3))
launch=$(dirname "$0")

if [ "$vectors" = search ]; then
  python "$launch/cloze_vectors.py" --corpus="$corpus" --out="$folder/vectors"
  vectors=$folder/vectors/best.vec
fi
python "$launch/cloze_baselines.py" --corpus="$corpus" --vectors="$vectors" --out="$folder" "$@"
