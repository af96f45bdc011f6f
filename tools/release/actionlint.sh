#!/usr/bin/env bash
# Check .github/workflows by actionlint, which is compiled by Go into the cache the first time.
#
# Usage: tools/release/actionlint.sh. Ends with 3 if there is neither actionlint in the cache nor Go.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=1.7.12
bin=${TOPIARIST_CACHE:-.cache}/actionlint/$version
mkdir -p "$bin"
bin=$(cd "$bin" && pwd)
if [ ! -x "$bin/actionlint" ]; then
  command -v go >/dev/null || {
    echo "actionlint $version is not in the cache, and there is no Go to build it: install Go" >&2
    exit 3
  }
  GOBIN=$bin GOFLAGS=-buildvcs=false go install "github.com/rhysd/actionlint/cmd/actionlint@v$version" >&2
fi
# actionlint also runs the pinned shellcheck on the scripts of steps, if it is there.
PATH=$PWD/.venv/bin:$PATH "$bin/actionlint" -no-color .github/workflows/*.yml
