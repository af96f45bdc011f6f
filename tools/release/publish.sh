#!/usr/bin/env bash
# Publish the files of a release: tools/release/publish.sh image|chart|python|files, in the checkout of its tag.
#
# The release workflow runs it after `make release-files`, with the files in dist. GITHUB_REPOSITORY is the owner and name
# at the forge, GITHUB_ACTOR and GITHUB_TOKEN log in to its registry. Signatures are made without a key, by the identity of
# the workflow. cosign is compiled by Go, and uv is installed by its hashes from constraints.txt.
set -euo pipefail
cd "$(dirname "$0")/../.."
export COSIGN_YES=true
cosign_module=github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3
registry=ghcr.io
repository=$(tr '[:upper:]' '[:lower:]' <<<"${GITHUB_REPOSITORY:?}")
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' operator/topiarist/__init__.py)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

install_cosign() {
  GOBIN=$scratch go install "$cosign_module"
}

publish_image() {
  install_cosign
  docker login "$registry" --username "$GITHUB_ACTOR" --password-stdin <<<"$GITHUB_TOKEN"
  docker buildx create --use --name topiarist --driver docker-container
  docker buildx build --platform linux/amd64,linux/arm64 --provenance mode=max --sbom=true --push \
    --build-arg "VERSION=$version" --build-arg "SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)" \
    --tag "$registry/$repository:$version" --metadata-file "$scratch/image.json" .
  digest=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["containerimage.digest"])' "$scratch/image.json")
  "$scratch/cosign" sign "$registry/$repository@$digest"
}

publish_chart() {
  helm registry login "$registry" --username "$GITHUB_ACTOR" --password-stdin <<<"$GITHUB_TOKEN"
  helm push "dist/topiarist-$version.tgz" "oci://$registry/${repository%/*}/charts"
}

publish_python() {
  python3 -m venv "$scratch/venv"
  awk '/^[^ #]/ { wanted = /^uv==/ } wanted' constraints.txt >"$scratch/uv.txt"
  "$scratch/venv/bin/pip" install --quiet --require-hashes --no-deps --only-binary :all: -r "$scratch/uv.txt"
  "$scratch/venv/bin/uv" publish --trusted-publishing always "dist/topiarist-$version.tar.gz" \
    "dist/topiarist-$version-py3-none-any.whl"
}

publish_files() {
  install_cosign
  (cd dist && sha256sum --check --quiet SHA256SUMS)
  "$scratch/cosign" sign-blob --bundle dist/SHA256SUMS.sigstore.json dist/SHA256SUMS
  gh release create "v$version" --verify-tag --title "$version" --notes-file dist/notes.md dist/*
}

case "${1:-}" in
  image | chart | python | files) "publish_$1" ;;
  *)
    echo "usage: tools/release/publish.sh image|chart|python|files" >&2
    exit 2
    ;;
esac
