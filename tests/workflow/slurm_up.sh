#!/bin/bash
# Brings up a SLURM of one node for this project's own tests, as root. All that it writes lies in FOLDER; slurm_down.sh FOLDER ends it.
# Usage: slurm_up.sh FOLDER    then: export SLURM_CONF=FOLDER/slurm.conf
# CPUS, MEM (MB) and GPUS (made up, default 0) size the node. Exit codes: 0 the node is idle, 2 bad use, 3 another SLURM runs here, 1 anything else.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
die() { echo "slurm_up: $2" >&2; exit "$1"; }
[ $# = 1 ] || die 2 "usage: slurm_up.sh FOLDER"
[ "$(id -u)" = 0 ] || die 2 "needs root, to start SLURM's daemons"
mkdir -p "$1"
dir=$(cd "$1" && pwd -P)
# SLURM's files know no quoting, and a socket's path ends at 107 bytes.
[[ $dir =~ ^[A-Za-z0-9_./-]{1,90}$ ]] || die 2 "the folder's path may hold only letters, digits and _ . / -, 90 at most: $dir"

# One on this machine that is not ours stays as it is: its jobs are someone's work.
if pid=$(cat "$dir/slurmctld.pid" 2>/dev/null) && tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF "$dir/"; then
  die 3 "already up in $dir: slurm_down.sh ends it"
fi
for proc in /proc/[0-9]*; do
  case $(cat "$proc/comm" 2>/dev/null || true) in
    slurmctld | slurmd | slurmdbd) die 3 "another SLURM runs on this machine (process ${proc#/proc/}): left alone" ;;
  esac
done

if ! command -v slurmctld >/dev/null || ! command -v slurmd >/dev/null || ! command -v munged >/dev/null; then
  command -v apt-get >/dev/null || die 1 "SLURM is not installed, and there is no apt-get to install it"
  # A package may start its daemons as it is installed: here they start only below, with our files.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  export DEBIAN_FRONTEND=noninteractive
  install=(timeout 300 apt-get -o DPkg::Lock::Timeout=60 install -y -qq --no-install-recommends slurm-wlm munge)
  "${install[@]}" </dev/null >"$dir/apt.log" 2>&1 ||
    { timeout 120 apt-get update -qq >>"$dir/apt.log" 2>&1 && "${install[@]}" </dev/null >>"$dir/apt.log" 2>&1; } ||
    { tail -n 5 "$dir/apt.log" >&2; die 1 "slurm-wlm and munge could not be installed"; }
fi

# A job's own srun finds its cluster at the usual place alone, since Snakemake takes all SLURM_* variables from a job.
usual=/etc/slurm/slurm.conf
[ -L $usual ] && [ ! -e $usual ] && rm $usual # left by one of ours that was killed
[ ! -e $usual ] || die 3 "this machine has a SLURM configuration of its own ($usual): left alone"
mkdir -p /etc/slurm
ln -s "$dir/slurm.conf" $usual

cpus=${CPUS:-$(nproc)}
mem=${MEM:-$(awk '/^MemTotal/ {print int($2 / 1024 * 0.9)}' /proc/meminfo)}
gpus=${GPUS:-0}
host=$(hostname -s)
rm -rf "$dir"/{state,spool,munge,log}
mkdir -p "$dir"/{state,spool,munge,log}
chmod 0755 "$dir"/{state,spool,log}
chmod 0711 "$dir/munge"
# Ports of our own, so that nothing here meets what listens on SLURM's usual ones.
read -r port_ctld port_d < <(python3 -c '
import socket
held = [socket.socket() for _ in range(2)]
for s in held: s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in held))')

gres=
: >"$dir/gres.conf"
if [ "$gpus" -gt 0 ]; then
  # Devices that every Linux has: with a count alone and no file, SLURM takes the node for broken.
  echo "NodeName=$host Name=gpu File=/dev/tty[0-$((gpus - 1))]" >"$dir/gres.conf"
  gres="Gres=gpu:$gpus"
fi
cat >"$dir/slurm.conf" <<CONF
ClusterName=reelmilltest
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port_ctld
SlurmdPort=$port_d
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/munge.socket
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,sched_interval=1,bf_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
ReturnToService=2
MinJobAge=3600
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
MaxArraySize=1001
NodeName=$host NodeAddr=127.0.0.1 CPUs=$cpus RealMemory=$mem $gres State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF

export SLURM_CONF=$dir/slurm.conf
fail() {
  echo "slurm_up: $1; the ends of the logs:" >&2
  tail -qn 8 "$dir"/log/* >&2 || true
  bash "$here/slurm_down.sh" "$dir" || true
  exit 1
}
dd if=/dev/urandom of="$dir/munge/key" bs=1024 count=1 status=none
chmod 0400 "$dir/munge/key"
# --force: munged would rather not run as root; here everything does, and nothing outside this folder trusts its key.
munged --force --socket="$dir/munge/munge.socket" --key-file="$dir/munge/key" --log-file="$dir/log/munged.log" \
  --pid-file="$dir/munged.pid" --seed-file="$dir/munge/seed" </dev/null >"$dir/log/munged.out" 2>&1 || fail "munged did not start"
slurmctld -f "$SLURM_CONF" </dev/null >"$dir/log/slurmctld.out" 2>&1 || fail "slurmctld did not start"
slurmd -f "$SLURM_CONF" </dev/null >"$dir/log/slurmd.out" 2>&1 || fail "slurmd did not start"
for _ in $(seq 100); do
  [ "$(timeout 5 sinfo -h -o %t 2>/dev/null || true)" = idle ] && { echo "export SLURM_CONF=$SLURM_CONF"; exit 0; }
  sleep 0.1
done
fail "the node is not idle after 10 s"
