"""The certificate authorities that a cluster trusts for our webhooks. While the authority changes it trusts the new one
and the old one, so that no call fails before or after the webhook server is restarted."""

from __future__ import annotations

import re
import socket
import ssl
from urllib.parse import urlsplit

from pools.security.tls_sockets import close_unfinished

AUTHORITY_FILE = "OSMO_WEBHOOK_AUTHORITY"
"""The environment variable with the file of the authority whose certificate our webhook server shows."""

MAX_AUTHORITIES = 4
PROBE_SECONDS = 3.0
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def split_authorities(bundle: str) -> list[str]:
    """The certificates in a PEM text, in their order."""
    return [f"{found}\n" for found in _CERTIFICATE.findall(bundle)]


def join_authorities(*bundles: str) -> str:
    """One PEM text of the certificates of all these texts, each once; the first ones are kept if there are too many."""
    found = list(dict.fromkeys(each for bundle in bundles for each in split_authorities(bundle)))
    return "".join(found[:MAX_AUTHORITIES])


def shows_certificate_of(url: str, authority: str) -> bool:
    """Whether the server at this address shows a certificate of this authority. False too if it does not answer."""
    parts = urlsplit(url)
    if not parts.hostname:
        return False
    context = close_unfinished(ssl.create_default_context(cadata=authority))
    try:
        with (
            socket.create_connection((parts.hostname, parts.port or 443), PROBE_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname),
        ):
            return True
    except (OSError, ValueError):
        return False
