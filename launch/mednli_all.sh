#!/usr/bin/env bash
# All tables of Romanov & Shivade 2018 (2 to 8), Figure 3, and at the end the reproduction check: FOLDER/check.html,
# check.json, check.md. These files hold only averages and may be passed on.
#
#   bash launch/mednli_all.sh --dry-run [FOLDER] [CORPUS] [further flags of train for all runs]   # plan, estimate of hours
#   MEDNLI_JAX_DATA=/data bash launch/mednli_all.sh runs/mednli mednli
#
# Missing files are left out and named in the check: sources of Table 4, vectors of Tables 5 and 7 (see
# launch/mednli_table4.sh, mednli_table5.sh). $NEURAL_FLAGS: flags for all runs except the feature-based ones, e.g.
# --config.model.hidden_size=100. $FEATURES_FLAGS, $SOURCES, $SOURCE_FLAGS, $RETROFIT: see the scripts of the tables.
# $VECTORS: "NAME=FILE ..." for Table 5, instead of the files that are found. Finished runs are skipped: after an
# interruption give the same command again.
set -euo pipefail
dry=''
[ "${1:-}" != --dry-run ] || { dry=1; shift; }
. "$(dirname "$0")/usage.sh"
folder=${1:-runs/mednli} corpus=${2:-mednli}
shift $(($# < 2 ? $# : 2))
launch=$(dirname "$0")
umask 077
read -ra vectors <<<"${VECTORS:-}"
for file in "${vectors[@]}"; do
  [[ $file != fasttext-mimic=* ]] || export MIMIC=${MIMIC:-${file#*=}}
done
read -ra neural <<<"${NEURAL_FLAGS:-}"
export MODES='sequential multi' KNOWLEDGE='none replace' TOGETHER=0 # what the paper has, and no more

# The same experiment in several tables is trained once: twins are links.
twins=(table3/:table4/baseline- table3/:table6_7/none- table5/fasttext-mimic-:table6_7/mimic-none-)
[[ " ${VECTORS:-}" = *' glove='* ]] || twins+=(table3/:table5/glove-)
link_twins() {
  local pair model from to
  for pair in "${twins[@]}"; do
    for model in bow infersent esim; do
      from=${pair%:*}$model to=${pair#*:}$model
      [ -e "$folder/$from" ] && [ ! -e "$folder/$to" ] || continue
      mkdir -p "$folder/${to%/*}"
      ln -sfn "../$from" "$folder/$to"
    done
  done
}

failed=()
step() { # what it makes, then a command; 3: interrupted, the same command goes on
  local what=$1 code=0
  shift
  "$@" || code=$?
  [ $code != 3 ] || exit 3
  [ $code = 0 ] || failed+=("$what")
}
all_tables() {
  step 'Table 3' bash "$launch/mednli_table3.sh" "$folder/table3" "$corpus" "$@"
  [ -n "$dry" ] || link_twins
  step 'Table 4' bash "$launch/mednli_table4.sh" "$folder/table4" "$corpus" "${SOURCES:-}" "$@" "${neural[@]}"
  step 'Table 5' bash "$launch/mednli_table5.sh" "$folder/table5" "$corpus" "${vectors[@]}" -- "$@" "${neural[@]}"
  [ -n "$dry" ] || link_twins
  step 'Tables 6 and 7' bash "$launch/mednli_table6_7.sh" "$folder/table6_7" "$corpus" "$@" "${neural[@]}"
}
analyze() { # Table 2 and Figure 3: of whole sentences
  [ -e "$folder/corpus/$1.json" ] || python -m mednli_jax.analyze "$1" --config="configs/esim_kd.py:$corpus" \
    "${@:2}" --config.data.max_length=32767 --out="$folder/corpus"
}
kinds_of_error() { # Table 8
  [ ! -e "$folder/categories.json" ] || return 0
  python -m mednli_jax.report "$folder"/table3/{bow,infersent,esim} --compare --categories --json \
    >"$folder/categories.part" &&
    mv "$folder/categories.part" "$folder/categories.json"
}

if [ -n "$dry" ]; then
  again=$(printf '|/%s(bow|infersent|esim)\t' "${twins[@]#*:}")
  export DRY_RUN=1
  all_tables "$@" | grep -Ev "${again#|}" | python "$launch/plan.py" "$folder"
  exit
fi
mkdir -p "$folder"
step 'Table 2' analyze stats "$@"
step 'Figure 3' analyze paths "$@"
all_tables "$@"
step 'Table 8' kinds_of_error
python -m mednli_jax.report --table=mednli --runs="$folder" --out="$folder/check.html" --markdown | tee "$folder/check.md"
if [ ${#failed[@]} -gt 0 ]; then
  printf '%s: not finished, see above: %s\n' "$0" "$(IFS=,; echo "${failed[*]}")" >&2
  exit 1
fi
