#!/usr/bin/env bash
# Trains on a Cloud TPU pod slice. Every host runs the same command; the first one writes the run directory.
#
#   bash launch/tpu_pod.sh [--dry-run] create|install|train|fetch|delete|all [flags of train]
#   bash launch/tpu_pod.sh --dry-run all --config=configs/esim_kd.py:mednli --config.seeds=0,1,2
#
# Set NAME, ZONE, TYPE, VERSION and, for a corpus of your own, DATA (a folder laid out as $MEDNLI_JAX_DATA; it is copied
# to every host: check that the data's licence allows it). The project is the one set in gcloud. `all` deletes the slice
# at the end, also after a failure. After `create` the slice costs money until `delete`. --dry-run prints the commands.
set -euo pipefail

NAME=${NAME:-mednli} ZONE=${ZONE:-us-west4-a} TYPE=${TYPE:-v5litepod-16} VERSION=${VERSION:-v2-alpha-tpuv5-lite}
DATA=${DATA:-} RUN=${RUN:-run} TRIES=${TRIES:-20}
source=$(cd "$(dirname "$0")/.." && pwd)
tpu=(gcloud compute tpus tpu-vm)

dry=
[ "${1:-}" = --dry-run ] && dry=1 && shift

. "$(dirname "$0")/usage.sh"
run() {
  if [ -n "$dry" ]; then printf '%q ' "$@" && echo; else "$@"; fi
}

on() { # workers, command
  run "${tpu[@]}" ssh "$NAME" --zone="$ZONE" --worker="$1" --command="$2"
}

create() {
  run "${tpu[@]}" create "$NAME" --zone="$ZONE" --accelerator-type="$TYPE" --version="$VERSION" --spot
}

install() { # what is committed, and the data
  run git -C "$source" archive --prefix=mednli_jax/ --output=/tmp/mednli_jax.tgz HEAD
  run "${tpu[@]}" scp /tmp/mednli_jax.tgz "$NAME:" --zone="$ZONE" --worker=all
  on all "umask 077; tar xzf mednli_jax.tgz && python3.11 -m venv venv && venv/bin/pip install -q './mednli_jax[tpu]'"
  if [ -n "$DATA" ]; then
    run "${tpu[@]}" scp --recurse "$DATA" "$NAME:data" --zone="$ZONE" --worker=all
  fi
}

train() { # again after each interruption, from the last checkpoint, which the first host has
  local again="\$([ -e $RUN/checkpoints ] && echo --resume || echo --force)" flags tries=0
  flags=$(printf '%q ' "$@")
  until on all "cd mednli_jax && MEDNLI_JAX_DATA=~/data ~/venv/bin/python -m mednli_jax.train --distributed \
--workdir=$RUN $again $flags"; do
    tries=$((tries + 1))
    [ "$tries" -lt "$TRIES" ] || return 3
  done
}

fetch() {
  run mkdir -p runs
  run "${tpu[@]}" scp --recurse "$NAME:mednli_jax/$RUN" "runs/$NAME" --zone="$ZONE" --worker=0
}

delete() {
  run "${tpu[@]}" delete "$NAME" --zone="$ZONE" --quiet
}

all() {
  trap delete EXIT
  create
  install
  train "$@"
  fetch
}

step=${1:-}
case $step in
create | install | train | fetch | delete | all) shift && "$step" "$@" ;;
*) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
