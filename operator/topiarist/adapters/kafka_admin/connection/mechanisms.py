"""The messages of the SASL mechanisms, which are those of kafka-python.

``authentication`` imports this module for a login only: half of the library comes with it.
"""

from __future__ import annotations

from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider, SaslMechanismOAuth
from kafka.net.sasl.plain import SaslMechanismPlain
from kafka.net.sasl.scram import SaslMechanismScram

from topiarist.model.access import SaslMechanism, SaslOAuth, SaslPassword


def make_exchange(login: SaslPassword | SaslOAuth, secret: str) -> Any:
    """Return the exchange of a login with its secret: the password, or the token."""
    if isinstance(login, SaslOAuth):
        return SaslMechanismOAuth(sasl_oauth_token_provider=_OneToken(secret))
    if login.mechanism is SaslMechanism.PLAIN:
        return SaslMechanismPlain(sasl_plain_username=login.username, sasl_plain_password=secret)
    # The library sends the name as it is; RFC 5802 escapes the characters that end it.
    escaped = login.username.replace("=", "=3D").replace(",", "=2C")
    return SaslMechanismScram(
        sasl_plain_username=escaped, sasl_plain_password=secret, sasl_mechanism=login.mechanism.value
    )


class _OneToken(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token
