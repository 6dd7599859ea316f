# shellcheck shell=bash disable=SC2034  # the scripts that source this file use its variables
# Sourced by the other scripts: paths, messages and --help.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cache=${PAGODA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pagoda}
python=/usr/bin/python3

# --help prints the comment at the top of the script, before anything is installed.
for word in "$@"; do
  if [[ $word == -h || $word == --help ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
  fi
done

say() { printf '==> %s\n' "$*" >&2; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# Prints name, size and modification time of each file; the output changes whenever a file's content may have changed.
fingerprint() { stat -c '%n %s %Y' "$@" 2>/dev/null || true; }

# Prints the folder of the Python environment for a requirements file (default: that of the core tests).
test_venv() { printf '%s/venv-%.12s\n' "$cache" "$(sha256sum < "${1:-$root/tests/requirements.txt}")"; }
