# Sourced by the scripts beside it: afterwards the working folder is the repository, and `hatch` is ours.
#
# Needs Python 3.11 or newer with pip, nothing else: not root, not python3-venv. What it installs goes to
# $HATCH_DATA_DIR where that is set, else to the user's cache folder, and is found there the next time.
set -euo pipefail

# With it every actor process would compile all its modules at its start, and tests would wait for that.
unset PYTHONDONTWRITEBYTECODE

HATCH_VERSION=1.18.2

cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\n== %s\n' "$*"; }

find_python() {
  local candidate
  for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null &&
      "$candidate" -m pip --version >/dev/null 2>&1; then
      echo "$candidate"
      return
    fi
  done
  echo "This needs Python 3.11 or newer with pip. On Debian and Ubuntu: apt-get install python3-pip" >&2
  return 1
}

home=${HATCH_DATA_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/monarch-dev}
tool=$home/tools/hatch-$HATCH_VERSION
if ! "$tool/bin/hatch" --version >/dev/null 2>&1; then
  python=$(find_python)
  say "installing hatch $HATCH_VERSION into $tool"
  rm -rf "$tool"
  # Without pip inside, since Debian's python3 cannot put it there; the pip outside installs into it.
  "$python" -m venv --without-pip "$tool"
  "$python" -m pip --disable-pip-version-check --python "$tool/bin/python" install --quiet "hatch==$HATCH_VERSION"
fi
hatch() { "$tool/bin/hatch" "$@"; }

# An environment keeps the dependencies and entry points that a package had when it was installed.
# So when one of the packages declares others, the environments are made again.
known=$home/tools/packages-of-$(pwd | sha256sum | cut -c1-16)
declared=$("$tool/bin/python" -c '
import pathlib, tomllib
for path in sorted(pathlib.Path("packages").glob("*/pyproject.toml")):
    project = tomllib.loads(path.read_text())["project"]
    parts = ("dependencies", "optional-dependencies", "entry-points", "scripts")
    print(project["name"], [project.get(part) for part in parts])')
if [ -e "$known" ] && [ "$(cat "$known")" != "$declared" ]; then
  say "the packages declare something new: making the environments again"
  hatch env prune
fi
echo "$declared" >"$known"
