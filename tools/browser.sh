#!/usr/bin/env bash
# Prints the path of a Chromium for the tests of pages, and installs one if there is none.
#
# Usage: tools/browser.sh PYTHON
# PYTHON: an interpreter that can import playwright. TOPIARIST_CHROMIUM: a browser to use, whatever else there is.
# An installed browser is used. Otherwise the script installs Debian's package if it runs as root on Debian, else
# Playwright's browser, into TOPIARIST_CACHE (.cache by default). Ends with 3 if neither can be installed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export PLAYWRIGHT_BROWSERS_PATH=${TOPIARIST_CACHE:-$here/../.cache}/playwright

found() {
  local name
  for name in "${TOPIARIST_CHROMIUM:-chromium}" chromium-headless-shell google-chrome google-chrome-stable; do
    if command -v "$name"; then return 0; fi
  done
  find "$PLAYWRIGHT_BROWSERS_PATH" -type f -name '*headless*shell' 2>/dev/null | sort | tail -n 1 | grep .
}

debian() {
  [ "$(id -u)" = 0 ] && apt-get -qq update && apt-cache show chromium-headless-shell >/dev/null 2>&1 &&
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends chromium-headless-shell
}

found && exit 0
echo "installing a headless Chromium; the first time this takes a minute ..." >&2
{ debian || "$1" -m playwright install --only-shell chromium; } >&2 || true
found || {
  echo "A Chromium is needed to test pages and could not be installed (see above): install one, or give its path" \
    "in TOPIARIST_CHROMIUM, then run: make test-browser" >&2
  exit 3
}
