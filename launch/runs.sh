# Sourced by the papers' scripts: reads their arguments, [--dry-run] FOLDER CORPUS, and defines what they share.
# --dry-run lists the runs and trains nothing.
. "$(dirname "$0")/usage.sh"
if [ "${1:-}" = --dry-run ]; then
  shift
  DRY_RUN=1 bash "$0" "$@" | python "$(dirname "$0")/plan.py" "${1:-}"
  exit
fi
if [ $# -lt 2 ]; then
  echo "error: FOLDER and CORPUS are missing. Fix: bash $0 --help" >&2
  exit 2
fi
case $1 in
  '' | *://*)
    echo "error: FOLDER is '$1', not a path of this machine. Fix: give the path of a folder" >&2
    exit 2
    ;;
esac
umask 077
launch=$(dirname "$0") folder=$1 corpus=$2 failed=()
shift 2

# run NAME COMMAND FLAGS: train or evaluate writes the run $folder/NAME. A complete run is skipped, and one that was
# interrupted or killed is continued. In a dry run it prints a line: run TAB "done" or "to do" TAB flags.
run() {
  local name=$1 command=$2 place=$folder/$1 state='to do' again=--force
  shift 2
  ! grep -qs '"status": "complete"' "$place/result.json" || state=done
  if [ -n "${DRY_RUN:-}" ]; then
    printf '%s\t%s\t%s\n' "$place" "$state" "$*"
  elif [ "$state" = done ]; then
    echo "$place: complete" >&2
  elif [ "$command" = evaluate ]; then
    rm -rf "${folder:?}/$name" # what a killed process left
    python -m mednli_jax.evaluate "$@" --workdir="$place"
  else
    [ ! -e "$place/checkpoints" ] || again=--resume
    python -m mednli_jax.train "$@" --workdir="$place" --wait=120 $again
  fi
}

try() { # a command: the script goes on after its failure, but not after an interruption
  local code=0
  "$@" || code=$?
  [ $code != 3 ] || exit 3
  [ $code = 0 ] || failed+=("$1 $2")
}

end() { # the end of a script that used `try`
  [ ${#failed[@]} -gt 0 ] || exit 0
  printf '%s: failed, see above: %s\n' "$0" "$(IFS=, && echo "${failed[*]}")" >&2
  exit 1
}

vectors_named() { # prints the first file of $MEDNLI_JAX_DATA/vectors with one of these names and a usual ending
  local name ending
  for name in "$@"; do
    for ending in '' .vec .txt .bin .vec.gz .txt.gz .bin.gz; do # words alone, as the authors read fastText's
      if [ -f "${MEDNLI_JAX_DATA:-}/vectors/$name$ending" ]; then
        echo "$MEDNLI_JAX_DATA/vectors/$name$ending"
        return
      fi
    done
  done
}
