#!/usr/bin/env bash
# Trains on a Cloud TPU pod slice. Every host runs the same command; the first one writes the run directory.
#
#   bash launch/tpu_pod.sh [--dry-run] create|install|train|fetch|delete|all [flags of train]
#   BUCKET=gs://mine/esim bash launch/tpu_pod.sh all --config=configs/esim_kd.py:mednli --config.seeds=0,1,2
#
# Set NAME, ZONE, TYPE, VERSION and, for a corpus of your own, DATA (a folder laid out as $MEDNLI_JAX_DATA; it is copied
# to every host: check that the data's licence allows it). The project is the one set in gcloud. `all` deletes the slice
# at the end, also after a failure. After `create` the slice costs money until `delete`. --dry-run prints the commands.
#
# A Spot slice that is taken away is deleted, created and installed again, with pauses that double from PAUSE seconds to
# 32 times as long, TRIES failures in all. BUCKET, a private folder gs://..., then has the run and the cache: the first
# host copies them there every SAVE seconds (the run contains text of the corpus). Without BUCKET training starts anew.
set -euo pipefail

NAME=${NAME:-mednli} ZONE=${ZONE:-us-west4-a} TYPE=${TYPE:-v5litepod-16} VERSION=${VERSION:-v2-alpha-tpuv5-lite}
DATA=${DATA:-} RUN=${RUN:-run} TRIES=${TRIES:-20} PAUSE=${PAUSE:-30} BUCKET=${BUCKET:-} SAVE=${SAVE:-300}
source=$(cd "$(dirname "$0")/.." && pwd) archive=${TMPDIR:-/tmp}/mednli_jax.tgz tries=0
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

back_off() { # after a failure
  tries=$((tries + 1))
  if [ "$tries" -ge "$TRIES" ]; then
    echo "error: $tries tries failed. Fix: see above; the same command continues the run." >&2
    return 1
  fi
  sleep $((PAUSE << (tries < 6 ? tries - 1 : 5)))
}

create() {
  until run "${tpu[@]}" create "$NAME" --zone="$ZONE" --accelerator-type="$TYPE" --version="$VERSION" --spot; do
    back_off || return 3
    delete || true # what the failure left
  done
}

install() { # what is committed, the data, and what the bucket has; uv brings a python where the image has none
  run git -C "$source" archive --prefix=mednli_jax/ --output="$archive" HEAD &&
    run "${tpu[@]}" scp "$archive" "$NAME:" --zone="$ZONE" --worker=all &&
    on all "umask 077; tar xzf mednli_jax.tgz; for version in 3.13 3.12 3.11; do \
python\$version -m venv --clear venv 2>/dev/null && break; done; \
[ -x venv/bin/pip ] || { python3 -m pip install -q --user uv && \
~/.local/bin/uv venv -q --clear --seed --python 3.12 venv; }; \
venv/bin/pip install -q './mednli_jax[tpu]'" || return
  if [ -n "$DATA" ]; then
    run "${tpu[@]}" scp --recurse "$DATA" "$NAME:data" --zone="$ZONE" --worker=all || return
  fi
  if [ -n "$BUCKET" ] && run gcloud storage ls "$BUCKET/run"; then
    on 0 "umask 077; mkdir -p mednli_jax/$RUN cache && gcloud storage rsync -r $BUCKET/run mednli_jax/$RUN && \
gcloud storage rsync -r $BUCKET/cache cache"
  fi
}

once() { # trains, from the last checkpoint, which the first host has; exit code 2 leaves the file `refused`
  local again="\$([ -e $RUN/checkpoints ] && echo --resume || echo --force)" flags save=:
  flags=$(printf '%q ' "$@")
  [ -z "$BUCKET" ] || save="[ ! -e $RUN ] || { gcloud storage rsync -r $RUN $BUCKET/run && \
gcloud storage rsync -r ~/cache $BUCKET/cache; }"
  on all "umask 077; cd mednli_jax; mkdir -p ~/cache; while sleep $SAVE; do $save; done >/dev/null 2>&1 & \
trap 'code=\$?; kill \$!; $save; [ \$code != 2 ] || touch ~/refused; exit \$code' EXIT; MEDNLI_JAX_DATA=~/data \
MEDNLI_JAX_CACHE=~/cache ~/venv/bin/python -m mednli_jax.train --distributed --workdir=$RUN $again $flags"
}

ready() {
  [ "$("${tpu[@]}" describe "$NAME" --zone="$ZONE" --format='value(state)' 2>/dev/null)" = READY ]
}

again() { # a new slice
  delete || true
  create || return
  until install; do
    back_off || return 3
    ready || return 1 # taken away again
  done
}

train() { # again after each interruption
  until once "$@"; do
    ! on 0 'test -e refused' || return 2
    back_off || return 3
    until ready; do
      again || back_off || return 3
    done
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
  install || again
  train "$@"
  fetch
}

step=${1:-}
case $step in
create | install | train | fetch | delete | all) shift && "$step" "$@" ;;
*) sed -n '2,13s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
