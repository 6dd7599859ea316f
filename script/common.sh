# shellcheck shell=bash disable=SC2034  # the scripts that source this file use its variables
# Sourced by the other scripts: where things lie, how they speak, and --help.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cache=${PAGODA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pagoda}
python=/usr/bin/python3

# --help of a script that has nothing else to say: its first lines, before anything is installed.
for word in "$@"; do
  if [[ $word == -h || $word == --help ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
  fi
done

say() { printf '==> %s\n' "$*" >&2; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# What `file` was when it was last looked at: changes whenever its content may have.
fingerprint() { stat -c '%n %s %Y' "$@" 2>/dev/null || true; }

# The Python environment for a requirements file: the core tests', or that of a tier.
test_venv() { printf '%s/venv-%.12s\n' "$cache" "$(sha256sum < "${1:-$root/tests/requirements.txt}")"; }
