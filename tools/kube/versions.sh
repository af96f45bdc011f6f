#!/usr/bin/env bash
# Rewrites go.mod and go.sum beside this file for other releases of Kubernetes and etcd.
#
# Usage: tools/kube/versions.sh 1.36.3 3.6.8
# Needs Go, and fetches the list of what the releases are made of.
set -euo pipefail
kube=${1:?Kubernetes release, as 1.36.3} etcd=${2:?etcd release, as 3.6.8}
here=$(cd "$(dirname "$0")" && pwd)
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
cd "$new" # away from any other go.mod
mod=$(go list -m -f '{{.GoMod}}' "k8s.io/kubernetes@v$kube")
{
  echo "// A real Kubernetes API server for tests, nothing else. Written by tools/kube/versions.sh $kube $etcd"
  echo "module topiarist.dev/tools/kube"
  echo
  grep "^go " "$mod"
  echo
  echo "replace (" # k8s.io/kubernetes takes these from its own tree
  awk -v v="v0.${kube#1.}" '/=> \.\/staging\// { print "\t" $1 " => " $1 " " v }' "$mod"
  echo ")"
} >go.mod
go mod edit -require="k8s.io/kubernetes@v$kube" -require="go.etcd.io/etcd/server/v3@v$etcd" \
  -tool=k8s.io/kubernetes/cmd/kube-apiserver -tool=k8s.io/kubernetes/cmd/kubectl -tool=go.etcd.io/etcd/server/v3
go mod tidy
cp go.mod go.sum "$here/"
