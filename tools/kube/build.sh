#!/usr/bin/env bash
# Builds a real kube-apiserver, etcd and kubectl from Go modules and prints the folder that they are in.
#
# Usage: tools/kube/build.sh
# TOPIARIST_CACHE (.cache by default): the binaries go to its folder `kube`, one folder a version.
# Versions: tools/kube/go.mod, written by tools/kube/versions.sh. The first run compiles for some minutes and fetches
# about 100 MB; every later one only prints, and needs no Go. Go's own build cache may be deleted afterwards. Ends with 3
# if something is to be built and there is no Go.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${TOPIARIST_CACHE:-$here/../../.cache}/kube

version=$(awk '$1 == "k8s.io/kubernetes" && $2 ~ /^v/ { print $2 }' "$here/go.mod")
key=$(cat "$here/go.mod" "$here/go.sum" | cksum | cut -d' ' -f1)
bin=$cache/$version-$key-$(uname -s)-$(uname -m)
stamp="-X k8s.io/component-base/version.gitVersion=$version -X k8s.io/component-base/version.gitMajor=1"
stamp+=" -X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<<"$version")"
mkdir -p "$bin"
bin=$(cd "$bin" && pwd)
for tool in go.etcd.io/etcd/server/v3 k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kubectl; do
  name=${tool##*/}
  [ "$name" != v3 ] || name=etcd
  [ ! -x "$bin/$name" ] || continue
  command -v go >/dev/null || {
    echo "Go $(awk '$1 == "go" { print $2 }' "$here/go.mod") or later is needed to build a Kubernetes API server and was" \
      "not found: install it, then run: make kube" >&2
    exit 3
  }
  echo "building $name for Kubernetes $version; the first time this takes some minutes ..." >&2
  (cd "$here" && CGO_ENABLED=0 GOFLAGS=-mod=readonly \
    go build -buildvcs=false -trimpath -ldflags "-s -w $stamp" -o "$bin/$name.$$" "$tool") >&2
  mv "$bin/$name.$$" "$bin/$name" # whole or not at all
done
echo "$bin"
