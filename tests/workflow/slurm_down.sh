#!/bin/bash
# Ends the SLURM that slurm_up.sh started in FOLDER, its jobs first, and nothing else. May be repeated.
# Usage: slurm_down.sh FOLDER
set -uo pipefail
[ $# = 1 ] || { echo "usage: slurm_down.sh FOLDER" >&2; exit 2; }
[ -d "$1" ] || exit 0
dir=$(cd "$1" && pwd -P)
export SLURM_CONF=$dir/slurm.conf

# A pid file may outlive its process, and its number may belong to someone else by now: the command line must name our folder.
ours() {
  pid=$(cat "$dir/$1.pid" 2>/dev/null) && [ -n "$pid" ] && tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF "$dir/"
}

if ours slurmctld; then
  timeout 10 scancel --state=PENDING --full --user=root >/dev/null 2>&1
  timeout 10 scancel --signal=KILL --full --user=root >/dev/null 2>&1
  # Steps hold memory and files of the tests: a short while for them to go.
  for _ in $(seq 50); do [ -z "$(timeout 5 squeue -h -t RUNNING,COMPLETING 2>/dev/null)" ] && break; sleep 0.1; done
fi
for name in slurmd slurmctld munged; do
  ours $name || continue
  kill "$pid"
  for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
  if ours $name; then kill -9 "$pid"; fi
done
[ "$(readlink /etc/slurm/slurm.conf)" = "$dir/slurm.conf" ] && rm /etc/slurm/slurm.conf
rm -f "$dir"/{slurmd,slurmctld,munged}.pid
exit 0
