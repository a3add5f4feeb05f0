#!/bin/sh
# Makes .venv with everything a workstation needs. Safe to repeat: a finished .venv costs nothing, an unfinished one is made again.
# Asks nothing. PYTHON=/path/to/python3.11 names the interpreter to use; --quiet says nothing where all is done.
set -eu
cd "$(dirname "$0")/.."
venv=.venv
extras=events,blender,clips,latents,workflow,demo,dev
stamp=$venv/reelmill-setup           # written last: what this .venv was made from
unfinished=$venv/reelmill-unfinished # there while packages are being put in
log=$venv/reelmill-setup.log
ticker=

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }
is_root() { [ "$(id -u)" = 0 ]; }
can_sudo() { command -v sudo >/dev/null 2>&1 && sudo -n true >/dev/null 2>&1; }
os_is() { # an ID or ID_LIKE of this Linux, such as debian
  ids=$(sed -n 's/^ID\(_LIKE\)\{0,1\}=//p' /etc/os-release 2>/dev/null | tr '"\n' '  ')
  case " $ids " in *" $1 "*) return 0 ;; *) return 1 ;; esac
}

# Two lines: what goes into .venv, and where it stands. The place counts, since programs in bin and an editable install hold absolute paths.
describe_venv() {
  "$venv/bin/python" - "$extras" pyproject.toml 2>/dev/null <<'PY'
import hashlib, os, sys
with open(sys.argv[2], "rb") as file:
    print(hashlib.sha256(sys.argv[1].encode() + file.read()).hexdigest())
print(sys.version.split()[0], os.path.realpath(sys.prefix))
PY
}

is_311() { "$1" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' >/dev/null 2>&1; }

find_python() { # the first Python 3.11 of: PYTHON, PATH, pyenv's, uv's
  if [ -n "${PYTHON:-}" ]; then
    is_311 "$PYTHON" && printf '%s\n' "$PYTHON"
    return
  fi
  for name in python3.11 python3 python "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/3.11*/bin/python3.11; do
    if is_311 "$name"; then command -v "$name"; return; fi
  done
  for name in uv "${HOME:-}/.local/bin/uv"; do
    found=$("$name" python find 3.11 2>/dev/null) || continue
    if is_311 "$found"; then printf '%s\n' "$found"; return; fi
  done
  return 1
}

how_to_get_python() { # one line to type
  if command -v uv >/dev/null 2>&1; then echo "uv python install 3.11"
  elif command -v conda >/dev/null 2>&1; then echo "conda create -y -n py311 python=3.11 && conda activate py311"
  elif apt-cache show python3.11-venv >/dev/null 2>&1; then echo "sudo apt-get update && sudo apt-get install -y python3.11 python3.11-venv"
  elif os_is ubuntu; then echo "sudo add-apt-repository -y ppa:deadsnakes/ppa && sudo apt-get install -y python3.11 python3.11-venv"
  elif os_is debian && grep -q 'VERSION_ID="12"' /etc/os-release; then echo "sudo apt-get update && sudo apt-get install -y python3.11 python3.11-venv"
  elif os_is debian; then echo "sudo apt-get install -y pipx && pipx install uv && ~/.local/bin/uv python install 3.11"
  elif os_is fedora || os_is rhel; then echo "sudo dnf install -y python3.11"
  else echo "pipx install uv && uv python install 3.11"
  fi
}

run_apt() {
  if is_root; then set -- env DEBIAN_FRONTEND=noninteractive "$@"; else set -- sudo -n env DEBIAN_FRONTEND=noninteractive "$@"; fi
  "$@" </dev/null >>"$log" 2>&1
}

apt_install() { # Debian packages without a question; false where they cannot be had
  command -v apt-get >/dev/null 2>&1 || return 1
  is_root || can_sudo || return 1
  # The lists of packages are fetched only when it does not work without: a minute saved, and it works offline.
  for try in install update install; do
    case $try in
      update) run_apt apt-get -o DPkg::Lock::Timeout=60 update -qq || return 1 ;;
      install) run_apt apt-get -o DPkg::Lock::Timeout=60 install -y -qq --no-install-recommends "$@" && return 0 ;;
    esac
  done
  return 1
}

remove_venv() { # renamed first: half a .venv must never stand under that name
  mv "$venv" "$venv-removed-$$"
  rm -rf "$venv"-removed-*
}

keep_or_clear_venv() { # leaves .venv as something that can be installed into, or not there at all
  [ -e "$venv" ] || return 0
  place=$(describe_venv | sed -n 2p) || place=
  if [ -e "$unfinished" ]; then
    say "the last setup did not finish: starting .venv again"
    remove_venv
  elif [ -e "$stamp" ]; then
    [ "$place" = "$(sed -n 2p "$stamp")" ] && return 0
    say ".venv was made in another folder or for another Python: making it again"
    remove_venv
  else # not ours: taken over if it can be, never deleted
    case $place in
      "3.11."*" $(pwd -P)/$venv") "$venv/bin/python" -m pip --version >/dev/null 2>&1 && return 0 ;;
    esac
    aside=$venv-yours-$$
    mv "$venv" "$aside"
    say "the .venv that was here cannot be used: moved to $aside"
  fi
}

make_venv() {
  python=$(find_python) || [ -z "${PYTHON:-}" ] || die "PYTHON=$PYTHON is not a Python 3.11"
  [ -n "$python" ] || die "Python 3.11 is needed (bpy and the pinned numpy have no other); type: $(how_to_get_python)"
  mkdir "$venv"
  : >"$unfinished"
  if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    if is_root || can_sudo; then say "installing python3.11-venv (this Python comes without it)"; fi
    apt_install python3.11-venv || { rm -rf "$venv"; die "this Python cannot make environments; type: sudo apt-get update && sudo apt-get install -y python3.11-venv"; }
  fi
  say "making .venv with $("$python" --version) ($python)"
  "$python" -m venv "$venv" >>"$log" 2>&1 || why_not "making .venv failed"
}

why_not() { # ends with one line that says what stopped it
  if grep -qi 'no space left' "$log"; then reason="the disk is full ($(df -Pk . | awk 'NR == 2 {print int($4 / 1024)}') MB free here; 3000 MB are needed, 7000 MB with the build of torch for GPUs)"
  elif grep -qiE 'name resolution|NewConnectionError|unreachable|ConnectTimeout|Connection refused|ProxyError|getaddrinfo' "$log"; then reason="the package index cannot be reached (no network?)"
  elif grep -qi 'CERTIFICATE_VERIFY_FAILED' "$log"; then reason="the package index's certificate is not trusted here (PIP_CERT names a certificate file)"
  elif grep -qiE '(gcc|cc).*(not found|No such file)|Microsoft Visual' "$log"; then reason="a package has no wheel for this machine and would have to be compiled"
  else reason=$(grep -i '^ *error' "$log" | tail -n 1)
  fi
  die "$1: ${reason:-see the log}; what was said: $log; to try again: make setup"
}

show_progress() { # a line every 15 seconds, until this script ends
  seconds=0
  while sleep 1 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
    seconds=$((seconds + 1))
    [ $((seconds % 15)) = 0 ] && say "  still at it, $seconds s, $(du -sk "$venv" 2>/dev/null | awk '{print int($1 / 1024)}') MB so far"
  done
}

install_packages() {
  : >"$unfinished"
  rm -f "$stamp"
  say "installing the packages of pyproject.toml ($extras): about 3000 MB with the build of torch for processors, 7000 MB with that for GPUs, three to eight minutes"
  show_progress &
  ticker=$!
  "$venv/bin/python" -m pip install --quiet --no-input --retries 2 --disable-pip-version-check -e ".[$extras]" >>"$log" 2>&1 || why_not "pip could not install the packages"
  "$venv/bin/python" -c 'import av, cv2, h5py, numpy, pydantic, snakemake, xxhash' >>"$log" 2>&1 || why_not "a package does not load"
  kill "$ticker" 2>/dev/null || true
}

install_system_libraries() { # for Blender; events need none, so that a lack of them stops nothing here
  [ -e src/reelmill/syslibs.py ] || return 0
  missing=$("$venv/bin/python" src/reelmill/syslibs.py 2>>"$log") || true
  [ -n "$missing" ] || return 0
  # shellcheck disable=SC2086  # one word a package
  if command -v apt-get >/dev/null 2>&1 && { is_root || can_sudo; }; then
    say "installing what Blender loads from the system: $missing"
    apt_install $missing && return 0
  fi
  say "rendering clips will need system libraries (events do not); type: sudo apt-get update && sudo apt-get install -y $missing"
}

# Another make may be at the same work: it waits here, then finds all done. Where there is no flock, the user is trusted not to.
if command -v flock >/dev/null 2>&1; then
  exec 9<pyproject.toml
  flock 9 || true
fi
# What a shell carries from elsewhere must not lead pip out of .venv.
unset PYTHONPATH PYTHONHOME PIP_TARGET PIP_PREFIX
export PIP_USER=0

if [ -e "$stamp" ] && [ ! -e "$unfinished" ] && [ "$(describe_venv)" = "$(cat "$stamp")" ]; then
  [ "${1:-}" = --quiet ] || say "nothing to do, .venv is ready"
  exit 0
fi
started=$(date +%s)
trap '[ -z "$ticker" ] || kill "$ticker" 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
keep_or_clear_venv
[ -e "$venv" ] || make_venv
: >"$log"
install_packages
install_system_libraries
describe_venv >"$stamp.part"
rm -f "$unfinished"
mv "$stamp.part" "$stamp"
say "ready in $(($(date +%s) - started)) s; next: make demo (or make test, make help)"
