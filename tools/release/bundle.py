"""The bundle for the Operator Lifecycle Manager, from the chart as Helm renders it and from the definitions.

The admission policies are not part of it, because a bundle may not contain their kind. The operator watches all
namespaces; the rights to read Secrets are given by the administrator, since a bundle takes no values.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import helm_python
import yaml

Document = dict[str, Any]

CHANNEL = "stable"
SAMPLES = ("samples/cluster-in-kubernetes.yaml", "samples/topic.yaml", "policies/no-deletion-in-production.yaml")
"""A sample of each kind, below ``manifests``."""

_INSTALL_MODES = ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")

_LABELS = {
    "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
    "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
    "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
    "operators.operatorframework.io.bundle.package.v1": "topiarist",
    "operators.operatorframework.io.bundle.channels.v1": CHANNEL,
    "operators.operatorframework.io.bundle.channel.default.v1": CHANNEL,
}


class Release(NamedTuple):
    """The version that a bundle is for, its image with tag or digest, its repository, and its time in seconds."""

    version: str
    image: str
    repository: str
    epoch: int


def build_bundle(tree: Path, release: Release) -> dict[str, bytes]:
    """Return the files of a bundle by path, from an exported tree of the repository."""
    definitions = {path.name: path.read_bytes() for path in sorted((tree / "manifests" / "crds").glob("*.yaml"))}
    service = _service_version(tree, [yaml.safe_load(data) for data in definitions.values()], release)
    labels = "".join(f"LABEL {key}={value}\n" for key, value in _LABELS.items())
    return {
        **{f"manifests/{name}": data for name, data in definitions.items()},
        "manifests/topiarist.clusterserviceversion.yaml": _dump(service),
        "metadata/annotations.yaml": _dump({"annotations": _LABELS}),
        "bundle.Dockerfile": f"FROM scratch\n{labels}COPY manifests /manifests/\nCOPY metadata /metadata/\n".encode(),
    }


def _dump(document: Document) -> bytes:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120).encode()


def _render_chart(tree: Path, image: str) -> list[Document]:
    """Return the documents of the chart with an image."""
    repository, _, tag = image.partition("@") if "@" in image else image.rpartition(":")
    values = {"image": {"repository": repository, "digest" if "@" in image else "tag": tag}}
    chart = helm_python.Chart.load(tree / "charts" / "topiarist")
    rendered = chart.render(values, name="topiarist", namespace="topiarist")
    texts = [text for name, text in sorted(rendered.items()) if name.endswith(".yaml")]
    return [document for text in texts for document in yaml.safe_load_all(text) if document]


def _service_version(tree: Path, definitions: list[Document], release: Release) -> Document:
    """Return the ClusterServiceVersion: what is installed, its rights, and how it is shown."""
    chart = yaml.safe_load((tree / "charts" / "topiarist" / "Chart.yaml").read_text())
    rendered = _render_chart(tree, release.image)
    by_name = {(one["kind"], one["metadata"]["name"]): one for one in rendered}
    deployment = by_name["Deployment", "topiarist"]
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    samples = [yaml.safe_load((tree / "manifests" / name).read_text()) for name in SAMPLES]
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": f"topiarist.v{release.version}",
            "namespace": "placeholder",
            "annotations": {
                "alm-examples": json.dumps(samples),
                "capabilities": "Seamless Upgrades",
                "categories": "Streaming & Messaging",
                "containerImage": release.image,
                "createdAt": datetime.fromtimestamp(release.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "description": chart["description"],
                "repository": f"https://github.com/{release.repository}",
            },
        },
        "spec": {
            "displayName": "Topiarist",
            "description": chart["description"],
            "version": release.version,
            "maturity": "alpha",
            "minKubeVersion": chart["kubeVersion"].removeprefix(">=").removesuffix("-0"),
            "keywords": chart["keywords"],
            "links": [{"name": "Documentation", "url": chart["home"]}],
            "provider": {"name": "The topiarist authors"},
            "installModes": [{"type": mode, "supported": mode == "AllNamespaces"} for mode in _INSTALL_MODES],
            "customresourcedefinitions": {"owned": [_owned(one) for one in definitions]},
            "install": {
                "strategy": "deployment",
                "spec": {
                    "clusterPermissions": [_permission(by_name["ClusterRole", "topiarist-topiarist"], account)],
                    "permissions": [_permission(by_name["Role", "topiarist"], account)],
                    "deployments": [{"name": "topiarist", "spec": deployment["spec"]}],
                },
            },
        },
    }


def _owned(definition: Document) -> Document:
    spec = definition["spec"]
    (version,) = spec["versions"]
    return {
        "name": definition["metadata"]["name"],
        "version": version["name"],
        "kind": spec["names"]["kind"],
        "displayName": spec["names"]["kind"],
        "description": version["schema"]["openAPIV3Schema"]["description"],
    }


def _permission(role: Document, account: str) -> Document:
    return {"serviceAccountName": account, "rules": role["rules"]}
