#!/usr/bin/env bash
# Install topiarist for action.yml, in its own environment: first its dependencies, with the versions and hashes of
# constraints.txt, then the checkout of the action. Nothing else is downloaded, and no downloaded source is built.
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
# The project itself has no hash, and is built with the installed packages: setuptools, pinned like the rest.
awk '/^[^ #]/ { wanted = /^setuptools==/ } wanted' constraints.txt >>"$home/pins.txt"
install --require-hashes --only-binary :all: --requirement "$home/pins.txt"
install --no-index --no-build-isolation "$GITHUB_ACTION_PATH"
echo "$home/bin" >>"$GITHUB_PATH"
"$home/bin/topiarist" --version
