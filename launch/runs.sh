# Sourced by the scripts of the tables, which set $folder and have the flags for all runs as "$@".
# `run NAME FLAGS` trains into $folder/NAME. It skips a complete run and continues an interrupted or killed one. With
# $DRY_RUN nothing is trained: each step prints a line "FOLDER/NAME TAB done or to do TAB flags".

SEEDS=--config.seeds=0,1,2,3,4,5 # the paper's figures are means of six runs
for flag in "$@"; do # given twice, seeds add up
  case $flag in --config.seeds=*) SEEDS='' ;; esac
done

complete() { grep -q '"status": "complete"' "$folder/$1/result.json" 2>/dev/null; }

planned() { # name, then flags
  [ -n "${DRY_RUN:-}" ] || return 1
  local name=$1 state='to do'
  shift
  ! complete "$name" || state=done
  printf '%s\t%s\t%s\n' "$folder/$name" "$state" "$*"
}

run() { # name, then flags of train
  local name=$1
  planned "$@" && return
  shift
  if complete "$name"; then
    echo "$folder/$name: complete" >&2
  elif [ -e "$folder/$name/checkpoints" ]; then
    python -m mednli_jax.train "$@" --workdir="$folder/$name" --resume
  else
    python -m mednli_jax.train "$@" --workdir="$folder/$name" --force
  fi
}

direct() { # name, then the run that is scored and flags of evaluate
  local name=$1 from=$2
  shift 2
  planned "$name" --run="$folder/$from" "$@" && return
  if complete "$name"; then
    echo "$folder/$name: complete" >&2
  else
    rm -rf "${folder:?}/$name" # what a process left that was killed
    python -m mednli_jax.evaluate --run="$folder/$from" "$@" --workdir="$folder/$name"
  fi
}

# `report` prints the command that continues a table. It reads $folder/table.txt, which holds the corpus, the sources or
# NAME=FILEs, the variables and the flags for all runs, one per line, quoted for a shell.
remember() { # corpus, sources, names of variables, then flags
  [ -z "${DRY_RUN:-}" ] || return 0
  local corpus=$1 sources=$2 set='' name
  for name in $3; do
    [ -z "${!name:-}" ] || set+="$name=$(printf '%q' "${!name}") "
  done
  shift 3
  (umask 077 && mkdir -p "$folder")
  printf '%s\n' "$(printf '%q' "$corpus")" "$sources" "${set% }" "$([ $# = 0 ] || printf '%q ' "$@")" >"$folder/table.txt"
}

table() { # number
  [ -n "${DRY_RUN:-}" ] || python -m mednli_jax.report --table="$1" --runs="$folder"
}

# Prints the first file of vectors in $MEDNLI_JAX_DATA/vectors with one of these names and a usual ending, if any.
vectors_named() {
  local name ending
  for name in "$@"; do
    for ending in '' .bin .vec .txt .npy .bin.gz .vec.gz .txt.gz; do
      if [ -f "${MEDNLI_JAX_DATA:-}/vectors/$name$ending" ]; then
        echo "$MEDNLI_JAX_DATA/vectors/$name$ending"
        return
      fi
    done
  done
}
