#!/usr/bin/env bash
# Install topiarist for action.yml, in an environment of its own: what the action was checked out with, and before it
# its dependencies, at the versions and with the hashes of constraints.txt. Nothing else is fetched, and nothing that is
# fetched is built here.
set -euo pipefail

home="$RUNNER_TEMP/topiarist-home"
"${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "::error title=topiarist::Python 3.11 or later is needed: add actions/setup-python before this step"
  exit 1
}
"${PYTHON:-python3}" -m venv "$home"

install() {
  "$home/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "$@"
}

cd "$GITHUB_ACTION_PATH"
"$home/bin/python" tools/check_pins.py policy >"$home/pins.txt"
# The project itself has no hash, and is built with what is installed: setuptools, pinned like the rest.
awk '/^[^ #]/ { wanted = /^setuptools==/ } wanted' constraints.txt >>"$home/pins.txt"
install --require-hashes --only-binary :all: --requirement "$home/pins.txt"
install --no-index --no-build-isolation "$GITHUB_ACTION_PATH"
echo "$home/bin" >>"$GITHUB_PATH"
"$home/bin/topiarist" --version
