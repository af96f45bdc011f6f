"""The API server in memory of ``tests/campaigns`` accepts and refuses the states that the real API server does."""

from __future__ import annotations

import pytest

from campaigns.crd_schema import validate_spec
from campaigns.schema_values import set_property
from campaigns.sequences import enumerate_sequences
from kubernetes.fixtures.resources import create
from support.builders import document
from support.kubernetes.api_client import ApiClient


@pytest.mark.parametrize(("plural", "kind"), [("topics", "Topic"), ("clusters", "Cluster")])
def test_both_api_servers_have_the_same_verdict(server_api: ApiClient, plural: str, kind: str) -> None:
    """Each value of each property is created as a dry run, and compared with the checks in memory."""
    different, count = [], 0
    for sequence in enumerate_sequences(plural):
        for value in sequence.values:
            spec = set_property(sequence.base, sequence.path, value)
            body = document(kind, "a", **spec)
            body["metadata"]["labels"] = {"unjudged": "true"}
            found = create(server_api, "default", body, keep=False)
            assert found.status in (201, 422), found
            errors = validate_spec(plural, dict(spec), None)
            count += 1
            if (found.status == 201) == bool(errors):
                different.append(f"{sequence} = {value!r:.100}: {found.status}, {errors}, {found.message}")
    assert different == []
    assert count > 100
