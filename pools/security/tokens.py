"""Access tokens, and the short-lived JWTs for which clients exchange them: the proof of the user behind a request."""

from __future__ import annotations

import functools
import hashlib
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
from django.conf import settings
from django.utils import timezone

from pools.models import AccessToken
from pools.selectors.submission_path import find_valid_token

ISSUER = "osmo-admin"
JWT_LIFETIME = timedelta(minutes=5)
LEEWAY_SECONDS = 5  # between the clocks of two machines
SECRET_BYTES = 32  # 43 url-safe characters, the length that OSMO's own tokens have


def new_secret() -> str:
    """A token's secret, shown once."""
    return secrets.token_urlsafe(SECRET_BYTES)


def secret_digest(secret: str) -> str:
    """The stored digest of a secret. A secret has 256 random bits, so a plain hash cannot be reversed by guessing."""
    return hashlib.sha256(secret.encode()).hexdigest()


def find_token(secret: str) -> AccessToken | None:
    """The valid token of this secret, with its owner."""
    return (
        AccessToken.objects.valid(timezone.now())
        .select_related("owner")
        .filter(digest=secret_digest(secret), owner__is_active=True)
        .first()
    )


def issue_jwt(token: AccessToken) -> tuple[str, int]:
    """(JWT, expiry in seconds of the epoch) for a token. The roles in a JWT are for display only: each request reads
    the current roles, so a revoked role or token has no effect from then on."""
    now = datetime.now(UTC)
    expires = min(now + JWT_LIFETIME, token.expires_at)
    claims: dict[str, Any] = {
        "iss": ISSUER,
        "aud": ISSUER,
        "iat": now,
        "nbf": now - timedelta(seconds=5),
        "exp": expires,
        "unique_name": token.owner.username,
        "name": token.owner.username,
        "roles": sorted(token.owner.as_actor(token=token).roles),
        "osmo_token_name": token.name,
        "osmo_token_id": token.pk,
    }
    return jwt.encode(claims, settings.SECRET_KEY, algorithm="HS256"), int(expires.timestamp())


def verify_jwt(encoded: str) -> AccessToken | None:
    """The token a JWT was issued for, if both are still valid."""
    try:
        claims = _signed_claims(encoded, settings.SECRET_KEY)
    except jwt.InvalidTokenError:
        return None
    if claims["exp"] <= datetime.now(UTC).timestamp() - LEEWAY_SECONDS:
        return None
    token_id = claims["osmo_token_id"]
    is_number = isinstance(token_id, int) and not isinstance(token_id, bool)
    return find_valid_token(token_id) if is_number else None


@functools.lru_cache(maxsize=512)
def _signed_claims(encoded: str, key: str) -> dict[str, Any]:
    """The claims of a JWT that this key signed. A client sends the same JWT for minutes, and its signature stays
    right; whether it has expired, and whether its token is revoked, is checked for each request. Raises
    jwt.InvalidTokenError, which is not kept."""
    return jwt.decode(
        encoded,
        key,
        algorithms=["HS256"],
        audience=ISSUER,
        issuer=ISSUER,
        leeway=LEEWAY_SECONDS,
        options={"require": ["exp", "iat", "osmo_token_id"]},
    )
