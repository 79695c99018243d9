#!/usr/bin/env bash
# Trains, or sweeps, on a Cloud TPU pod slice. Every host runs the same command.
#
#   bash launch/cluster/tpu_pod.sh [--dry-run] [NAME] create|install|train|sweep|fetch [sweep]|delete [flags]
#   bash launch/cluster/tpu_pod.sh [--dry-run] [NAME] all [sweep] [flags of train or sweep]
#   BUCKET=gs://mine/esim bash launch/cluster/tpu_pod.sh all --config=configs/esim_kd.py:mednli --config.seeds=0,1,2
#   bash launch/cluster/tpu_pod.sh NAME sweep search_ga:clicr --study=ga --storage=postgresql://USER@HOST/DATABASE
#
# Set NAME, ZONE, TYPE, VERSION and, for a corpus of your own, DATA (a folder laid out as $MEDNLI_JAX_DATA; it is copied
# to every host: check that the data's licence allows it). SPOT= (empty) creates a slice that is not taken away, at the
# full price. The project is the one set in gcloud. `all` deletes the slice at the end, also after a failure. After
# `create` the slice costs money until `delete`. --dry-run prints the commands.
#
# train: all hosts train one run, which the first host writes and `fetch` copies to runs/NAME. sweep: the workers of each
# host, one for each of its CHIPS chips, train trials of one study in a database that all hosts reach. A trial of a host
# that is lost starts again on another one. `fetch sweep` copies the trials of host K to runs/NAME/host-K.
#
# Training does not depend on the connection: its output goes to train.log on each host, and `train` shows the log. Where
# the connection is lost, the same command shows the log of the training that is under way.
#
# A Spot slice that is taken away is deleted, created and installed again, with pauses that double from PAUSE seconds to
# 32 times as long, TRIES failures in all. BUCKET, a private folder gs://..., then has the run and the cache: the first
# host copies them there every SAVE seconds (the run contains text of the corpus). Without BUCKET training starts anew. In
# a sweep each host copies its trials to BUCKET/runs/HOST; which trials are done is in the database.
set -euo pipefail

NAME=${NAME:-mednli} ZONE=${ZONE:-us-west4-a} TYPE=${TYPE:-v5litepod-16} VERSION=${VERSION:-v2-alpha-tpuv5-lite}
SPOT=${SPOT-yes} CHIPS=${CHIPS:-4} DATA=${DATA:-} RUN=${RUN:-run} TRIES=${TRIES:-20} PAUSE=${PAUSE:-30} BUCKET=${BUCKET:-} SAVE=${SAVE:-300}
source=$(cd "$(dirname "$0")/../.." && pwd) archive=${TMPDIR:-/tmp}/mednli_jax.tgz tries=0 work=train
tpu=(gcloud compute tpus tpu-vm)

dry=
[ "${1:-}" = --dry-run ] && dry=1 && shift

. "$(dirname "$0")/../usage.sh"
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

check() { # the data, before anything is created
  local word corpus=
  [ -z "$dry" ] || return 0
  for word; do
    case $word in
    --config.*) ;;
    --config=*:* | [!-]*:*) corpus=${word##*:} corpus=${corpus%%/*} corpus=${corpus%_code} ;;
    esac
  done
  [[ $corpus =~ ^(mednli|mediqa_nli|snli|multinli|clicr)$ && " $*" != *" --config.data.dir"* ]] || corpus=
  if [ -n "$DATA" ] && [ -z "$(ls -A "$DATA/" 2>/dev/null)" ]; then
    echo "error: DATA=$DATA is no folder with files. Fix: give a folder laid out as \$MEDNLI_JAX_DATA." >&2
  elif [ -n "$corpus" ] && [ ! -e "$DATA/$corpus" ]; then
    echo "error: DATA=$DATA has no folder $corpus, the corpus of --config. Fix: DATA=FOLDER with FOLDER/$corpus." >&2
  else
    return 0
  fi
  return 2
}

check_storage() { # of a sweep
  [ $work = train ] || [[ " $*" = *" --storage=postgresql"*://* ]] && return
  echo "error: --storage names no PostgreSQL database, and the hosts share no files. Fix: --storage=postgresql://..." >&2
  return 2
}

create() {
  check || return
  until run "${tpu[@]}" create "$NAME" --zone="$ZONE" --accelerator-type="$TYPE" --version="$VERSION" ${SPOT:+--spot}; do
    back_off || return 3
    delete || true # what the failure left
  done
}

saved() { # whether the bucket has a run; code 3 where it could not be listed
  local said
  if [ -n "$dry" ]; then run gcloud storage ls "$BUCKET/run" && return; fi
  until said=$(gcloud storage ls "$BUCKET/run" 2>&1); do
    case $said in *"matched no objects"* | *"No such"*) return 1 ;; esac
    printf '%s\n' "$said" >&2
    back_off || return 3
  done
}

install() { # what is committed, the data, and what the bucket has; uv brings a python where the image has none
  local code=0
  check || return
  run git -C "$source" archive --prefix=mednli_jax/ --output="$archive" HEAD &&
    run "${tpu[@]}" scp "$archive" "$NAME:" --zone="$ZONE" --worker=all &&
    on all "umask 077; tar xzf mednli_jax.tgz; for version in 3.14 3.13 3.12 3.11; do \
python\$version -m venv --clear venv 2>/dev/null && break; done; \
[ -x venv/bin/pip ] || { python3 -m pip install -q --user uv && \
~/.local/bin/uv venv -q --clear --seed --python 3.12 venv; }; \
venv/bin/pip install -q './mednli_jax[tpu,sweep]'" || return
  if [ -n "$DATA" ]; then
    run "${tpu[@]}" scp --recurse "$DATA" "$NAME:data" --zone="$ZONE" --worker=all || return
  fi
  [ -n "$BUCKET" ] && [ $work = train ] || return 0
  saved || code=$?
  if [ $code = 0 ]; then
    on 0 "umask 077; mkdir -p mednli_jax/$RUN cache && gcloud storage rsync -r $BUCKET/run mednli_jax/$RUN && \
gcloud storage rsync -r $BUCKET/cache cache"
  else
    [ $code = 1 ] # nothing is saved
  fi
}

once() { # trains, from the last checkpoint, which the first host has, or follows the training that is under way
  # On each host: pid, the process; code, the exit code at its end; refused, for bad input; call, of which `train` they are
  local flags= save command again="\$([ -e $RUN/checkpoints ] && echo --resume || echo --force)"
  [ $# = 0 ] || flags=$(printf ' %q' "$@")
  if [ $work = sweep ]; then
    command="sweep --workers=$CHIPS"
    save="[ ! -e runs ] || gcloud storage rsync -r runs $BUCKET/runs/\$(hostname)"
  else
    command="train --distributed --wait=120 --workdir=$RUN $again"
    save="[ ! -e $RUN ] || { gcloud storage rsync -r $RUN $BUCKET/run && gcloud storage rsync -r ~/cache $BUCKET/cache; }"
  fi
  [ -n "$BUCKET" ] || save=:
  on all "umask 077; alive() { kill -0 \"\$(cat ~/pid)\"; } 2>/dev/null; \
alive || grep -qsx $call ~/call || rm -f ~/refused ~/code; echo $call >~/call; cd mednli_jax && mkdir -p ~/cache || exit; \
job() { while sleep $SAVE; do $save; done >/dev/null 2>&1 & MEDNLI_JAX_DATA=~/data MEDNLI_JAX_CACHE=~/cache \
~/venv/bin/python -m mednli_jax.$command \"\$@\"; code=\$?; kill \$!; $save; \
[ \$code != 2 ] || touch ~/refused; echo \$code >~/code; }; export -f job; \
follow() { alive || grep -qsx 0 ~/code || { rm -f ~/refused ~/code; : >~/train.log; \
setsid nohup bash -c 'job \"\$@\"' job \"\$@\" >>~/train.log 2>&1 </dev/null & echo \$! >~/pid; }; \
tail -n 50 -f --pid=\$(cat ~/pid) ~/train.log; exit \$(cat ~/code 2>/dev/null || echo 3); }; follow$flags"
}

ready() {
  [ "$("${tpu[@]}" describe "$NAME" --zone="$ZONE" --format='value(state)' 2>/dev/null)" = READY ]
}

again() { # a new slice
  [ "$tries" -lt "$TRIES" ] || return 3
  delete || true
  create || return
  until install; do
    back_off || return 3
    ready || return 1 # taken away again
  done
}

train() { # or sweeps; again after each interruption
  check_storage "$@" || return
  local call=$$.$RANDOM.$(date +%s)
  until once "$@"; do
    if ready && on 0 'kill -0 "$(cat pid)" 2>/dev/null'; then # the connection was lost, and the training goes on
      sleep "$PAUSE"
      continue
    fi
    ! on 0 'test -e refused' || return 2
    back_off || return 3
    until ready; do
      again || back_off || return 3
    done
  done
}

fetch() {
  local hosts=1 host
  if [ $work = sweep ]; then
    run mkdir -p "runs/$NAME"
    [ -n "$dry" ] || hosts=$("${tpu[@]}" describe "$NAME" --zone="$ZONE" --format='value(networkEndpoints.len())')
    for ((host = 0; host < hosts; host++)); do
      run "${tpu[@]}" scp --recurse "$NAME:mednli_jax/runs" "runs/$NAME/host-$host" --zone="$ZONE" --worker=$host || return
    done
    return
  fi
  run mkdir -p runs
  run "${tpu[@]}" scp --recurse "$NAME:mednli_jax/$RUN" "runs/$NAME" --zone="$ZONE" --worker=0
}

delete() {
  run "${tpu[@]}" delete "$NAME" --zone="$ZONE" --quiet
}

all() {
  check_storage "$@"
  check "$@"
  trap delete EXIT
  create
  install || again
  train "$@"
  fetch
}

steps=" create install train sweep fetch delete all "
if [ $# -gt 1 ] && [[ $steps != *" $1 "* ]]; then
  NAME=$1 && shift
fi
step=${1:-none}
[[ $steps = *" $step "* ]] || { bash "$0" --help >&2 && exit 2; }
shift
if [ "$step" = sweep ]; then
  work=sweep step=train
elif [ "${1:-}" = sweep ]; then
  work=sweep && shift
fi
[[ ${1:--} = -* ]] || set -- "--config=$1" "${@:2}"
"$step" "$@"
