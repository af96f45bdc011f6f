"""The credentials of a ``Cluster``: what its manifest says of SASL, digest and TLS, as references with their places.

Nothing is opened here: a manifest can be checked where its secrets are not.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from typing import Any

from topiarist.core.credentials import Credentials, Login, Reference, SecretKey, Tls
from topiarist.core.spec import Manifest
from topiarist.errors import Path


def credentials(manifest: Manifest) -> Credentials:
    """What ``spec.zookeeper`` names; a relative path of a file counts from the folder of the manifest's file."""
    zookeeper: Mapping[str, Any] = manifest.spec.get("zookeeper", {})
    return Credentials(
        sasl=_login(manifest, zookeeper, "sasl"),
        digest=_login(manifest, zookeeper, "digest"),
        tls=_tls(manifest, zookeeper["tls"]) if "tls" in zookeeper else None,
    )


def _login(manifest: Manifest, zookeeper: Mapping[str, Any], scheme: str) -> Login | None:
    if scheme not in zookeeper:
        return None
    password = _reference(manifest, zookeeper[scheme]["password"], (scheme, "password"))
    return Login(zookeeper[scheme]["username"], password)


def _tls(manifest: Manifest, given: Mapping[str, Any]) -> Tls:
    fields = {"ca": "ca", "certificate": "certificate", "key": "key", "key_password": "keyPassword"}
    references = {
        field: _reference(manifest, given[name], ("tls", name)) for field, name in fields.items() if name in given
    }
    return Tls(**references, server_name=given.get("serverName", ""))


def _reference(manifest: Manifest, given: Mapping[str, Any], below: Path) -> Reference:
    (kind,) = given
    place = manifest.source.place(("spec", "zookeeper", *below, kind))
    file = os.path.join(os.path.dirname(place.file), given["file"]) if kind == "file" else ""  # noqa: PTH118, PTH120
    return Reference(file, given.get("env", ""), place, SecretKey(**given[kind]) if kind == "secretKeyRef" else None)
