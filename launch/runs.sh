# Sourced by the scripts of the tables. `run NAME FLAGS`: train into $folder/NAME unless it is complete; go on with a run
# that was interrupted or killed.

complete() { grep -q '"status": "complete"' "$folder/$1/result.json" 2>/dev/null; }

run() { # name, then flags of train
  local name=$1
  shift
  if complete "$name"; then
    echo "$folder/$name: complete" >&2
  elif [ -e "$folder/$name/checkpoints" ]; then
    python -m mednli_jax.train "$@" --workdir="$folder/$name" --resume
  else
    python -m mednli_jax.train "$@" --workdir="$folder/$name" --force
  fi
}
