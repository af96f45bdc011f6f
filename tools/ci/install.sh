#!/usr/bin/env bash
# Install topiarist for action.yml, in an environment of its own: VERSION, or where that is empty what the action itself
# was checked out with, and then its dependencies at the versions that it was tested with.
set -euo pipefail

home="$RUNNER_TEMP/topiarist-home"
"${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "::error title=topiarist::Python 3.11 or later is needed: add actions/setup-python before this step"
  exit 1
}
"${PYTHON:-python3}" -m venv "$home"
if [[ -n ${VERSION:-} ]]; then
  "$home/bin/python" -m pip install --quiet --disable-pip-version-check "topiarist==$VERSION"
else
  # With hashes pip would want one for the folder too.
  sed -n 's/^\([a-z0-9-]*==[^ \\]*\).*/\1/p' "$GITHUB_ACTION_PATH/constraints.txt" >"$home/pins.txt"
  "$home/bin/python" -m pip install --quiet --disable-pip-version-check --constraint "$home/pins.txt" "$GITHUB_ACTION_PATH"
fi
echo "$home/bin" >>"$GITHUB_PATH"
"$home/bin/topiarist" --version
