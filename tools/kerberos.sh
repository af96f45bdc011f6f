#!/bin/sh
# Install what the tests of Kerberos need, where it is missing: a KDC and its programs by apt, and the package gssapi, which
# is compiled, into .venv. Run by make kerberos, and by make test-kafka in CI.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin
missing=
for program in krb5kdc kdb5_util kadmin.local kinit krb5-config gcc; do
  command -v "$program" >/dev/null || missing="$missing $program"
done
if [ -n "$missing" ]; then
  command -v apt-get >/dev/null || {
    echo "There is no$missing, and no apt-get to install MIT's Kerberos with: install a KDC, its clients and headers" >&2
    exit 1
  }
  root=$(test "$(id -u)" = 0 || echo sudo -n)
  export DEBIAN_FRONTEND=noninteractive
  $root apt-get update -q >&2
  $root apt-get install -y -q --no-install-recommends krb5-kdc krb5-admin-server krb5-user libkrb5-dev gcc libc6-dev >&2
fi
.venv/bin/python -c 'import gssapi' 2>/dev/null && exit 0
pins=tests/brokers/constraints.txt
part=$(mktemp)
trap 'rm -f "$part"' EXIT
# Cython first: an isolated build would fetch one that is not pinned.
for lines in '!is_gssapi' is_gssapi; do
  awk "/^[^ #]/ { is_gssapi = /^gssapi==/ } $lines" "$pins" >"$part"
  .venv/bin/uv pip install --quiet --python .venv/bin/python --require-hashes --no-deps --no-build-isolation -r "$part"
done
