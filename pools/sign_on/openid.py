"""OpenID Connect as the client of a provider: discovery, the authorization code with PKCE, refreshing, and the checks
of what a provider signs.

Signatures are verified by PyJWT, with the keys that the provider publishes, and only with algorithms of two keys: a
token without a signature, or one "signed" with a public key as the secret, is refused. httpx and PyJWT are loaded on
first use. Metadata and keys are kept in the process; an unknown key is looked up again at once, at most every
`KEYS_PAUSE` seconds.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote_plus, urlencode

from pools.domain.errors import Busy, DomainError, Fault, Forbidden, Throttled, Violation
from pools.domain.values.stored_text import are_storable
from pools.domain.values.urls import split_url
from pools.sign_on.providers import OpenIdProvider, ProviderFacts, claim_value, facts_of_claims

logger = logging.getLogger(__name__)

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LEEWAY = 60  # seconds by which the clocks of provider and server may differ
TIMEOUT = 5.0  # seconds for a provider to answer
METADATA_LIFE = 3600.0  # seconds
KEYS_LIFE = 600.0  # seconds; a key that the provider has withdrawn is trusted no longer
KEYS_PAUSE = 10.0  # seconds between two look-ups of the keys of one provider
MAX_ANSWER_BYTES = 1024 * 1024
CALLS_AT_ONCE = 2  # of the threads of a web process; a provider that hangs must not hold them all
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
LOOPBACK = {"localhost", "127.0.0.1", "::1"}

_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_calls = threading.BoundedSemaphore(CALLS_AT_ONCE)


class Refused(Forbidden):
    """The provider refused a code or a refresh token: the sign-on is over."""


class UnusableAnswer(Forbidden):
    """The answer to a refresh is wrong. `refresh_token` is the next one, if the answer has one: the old one may be used
    up."""

    def __init__(self, refusal: Forbidden, refresh_token: str) -> None:
        super().__init__(refusal.message, refusal.violations)
        self.refresh_token = refresh_token


@dataclass(frozen=True, slots=True)
class Metadata:
    """What the provider publishes about itself. An empty address: it has no such endpoint."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    end_session_endpoint: str = ""
    uses_basic_auth: bool = True


@dataclass(frozen=True, slots=True)
class StartedSignOn:
    """The secrets of one attempt, kept in the session of the browser until the provider sends it back."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> StartedSignOn:
        return cls(*(secrets.token_urlsafe(32) for _ in range(3)))


class _Known:
    """Metadata and keys of one issuer, with the monotonic times at which they were read."""

    def __init__(self) -> None:
        self.metadata: Metadata | None = None
        self.metadata_at = 0.0
        self.keys: Mapping[str | None, Any] = {}
        self.keys_at = 0.0


_known: dict[str, _Known] = {}


def authorization_url(provider: OpenIdProvider, started: StartedSignOn, redirect_uri: str) -> str:
    """The address to which the browser is sent. Raises Busy if the provider does not answer."""
    challenge = base64.urlsafe_b64encode(hashlib.sha256(started.verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": redirect_uri,
        "scope": " ".join(provider.scopes),
        "state": started.state,
        "nonce": started.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        **provider.extra_parameters,
    }
    endpoint = read_metadata(provider).authorization_endpoint
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"


def exchange_code(provider: OpenIdProvider, started: StartedSignOn, code: str, redirect_uri: str) -> ProviderFacts:
    """The facts of the person who has signed on. Raises Forbidden (Refused: the code is not valid), Busy, Throttled."""
    answer = _token_request(
        provider,
        {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": started.verifier,
        },
    )
    claims = verify_id_token(provider, _text(answer, "id_token"), nonce=started.nonce)
    _require_what_was_requested(provider, claims)
    return _facts(provider, claims, answer, "")


def refresh(provider: OpenIdProvider, refresh_token: str, subject: str) -> ProviderFacts:
    """The facts as they are now, of the same person. Raises Refused when the provider has ended the session,
    UnusableAnswer, Busy, Throttled."""
    try:
        answer = _token_request(provider, {"grant_type": "refresh_token", "refresh_token": refresh_token})
    except Refused:
        raise
    except Forbidden as refusal:  # of our client, which says nothing about the person
        raise _unreachable(provider, f"it refuses our requests. {refusal.message}") from refusal
    try:
        encoded = _text(answer, "id_token")
        claims = verify_id_token(provider, encoded) if encoded else _userinfo(provider, answer)
        if claims.get("sub") != subject:
            raise _refusal(provider, Fault.WRONG_SUBJECT, "answered for another person")
        return _facts(provider, claims, answer, refresh_token)
    except Refused:
        raise
    except Forbidden as refusal:
        raise UnusableAnswer(refusal, _text(answer, "refresh_token")) from refusal


def verify_id_token(provider: OpenIdProvider, encoded: str, *, nonce: str | None = None) -> dict[str, Any]:
    """The claims of an ID token (OpenID Connect Core, section 3.1.3.7). Raises Forbidden with the broken rule."""
    claims = _verify(provider, encoded, ["iss", "sub", "aud", "exp", "iat"])
    audiences = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    if claims.get("azp", provider.client_id) != provider.client_id or (len(audiences) > 1 and "azp" not in claims):
        raise _refusal(provider, Fault.WRONG_AUDIENCE, "sent a token that was issued to another client")
    if nonce is not None and not secrets.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
        raise _refusal(provider, Fault.WRONG_NONCE, "sent a token of another sign-on")
    return claims


def _require_what_was_requested(provider: OpenIdProvider, claims: Mapping[str, Any]) -> None:
    """A provider may ignore `max_age` and `acr_values`, so its answer decides (OpenID Connect Core, sections 3.1.2.1
    and 3.1.3.7). Raises Forbidden."""
    demands = provider.extra_parameters
    if "max_age" in demands:
        at = claims.get("auth_time")
        if not isinstance(at, int | float) or time.time() > at + int(demands["max_age"]) + LEEWAY:
            raise _refusal(
                provider, Fault.TOO_OLD, "does not say that you have logged in there as recently as is required here"
            )
    if "acr_values" in demands and claims.get("acr") not in demands["acr_values"].split():
        raise _refusal(
            provider, Fault.WEAK_LOGIN, "does not say that you have logged in there in the way that is required here"
        )


def verify_logout_token(provider: OpenIdProvider, encoded: str) -> tuple[str, str]:
    """(subject, session) that a provider ends by itself (OpenID Connect Back-Channel Logout, section 2.6); one of the
    two may be empty. Raises Forbidden."""
    claims = _verify(provider, encoded, ["iss", "aud", "iat", "exp", "jti"])
    events = claims.get("events")
    if not isinstance(events, Mapping) or LOGOUT_EVENT not in events or "nonce" in claims:
        raise _refusal(provider, Fault.NO_LOGOUT_TOKEN, "sent a token that is not a logout token")
    subject, session = (str(claims.get(name) or "") for name in ("sub", "sid"))
    if not subject and not session:
        raise _refusal(provider, Fault.NO_LOGOUT_TOKEN, "sent a logout token without sub and sid")
    return subject, session


def end_session_url(provider: OpenIdProvider, id_token: str, redirect_uri: str) -> str:
    """Where the browser signs out at the provider, too (RP-Initiated Logout); empty if it has no such address."""
    endpoint = read_metadata(provider).end_session_endpoint
    if not endpoint:
        return ""
    query = {"client_id": provider.client_id, "post_logout_redirect_uri": redirect_uri}
    query |= {"id_token_hint": id_token} if id_token else {}
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"


def read_metadata(provider: OpenIdProvider) -> Metadata:
    """The metadata of the provider, an hour old at most. Raises Busy, Forbidden."""
    known = _known.setdefault(provider.issuer, _Known())
    if known.metadata is not None and time.monotonic() - known.metadata_at < METADATA_LIFE:
        return known.metadata
    address = f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration"
    found = _request(provider, "GET", address)
    if found.get("issuer") != provider.issuer:
        raise _refusal(provider, Fault.WRONG_ISSUER, f"calls itself {str(found.get('issuer'))[:200]!r}")
    methods = found.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    known.metadata = Metadata(
        authorization_endpoint=_endpoint(provider, found, "authorization_endpoint"),
        token_endpoint=_endpoint(provider, found, "token_endpoint"),
        jwks_uri=_endpoint(provider, found, "jwks_uri"),
        userinfo_endpoint=_endpoint(provider, found, "userinfo_endpoint", is_needed=False),
        end_session_endpoint=_endpoint(provider, found, "end_session_endpoint", is_needed=False),
        uses_basic_auth="client_secret_basic" in methods,
    )
    known.metadata_at = time.monotonic()
    return known.metadata


def ask_again(provider: OpenIdProvider) -> None:
    """Read metadata and keys of the provider now. Raises Busy, Forbidden; what was known before stays known then."""
    before = _known.pop(provider.issuer, None)
    try:
        _read_keys(provider)
    except DomainError:
        if before is not None:
            _known[provider.issuer] = before
        raise


def _facts(
    provider: OpenIdProvider, claims: dict[str, Any], answer: Mapping[str, Any], former_token: str
) -> ProviderFacts:
    missing = [path for path in (provider.groups_claim, provider.username_claim) if claim_value(claims, path) is None]
    if missing and read_metadata(provider).userinfo_endpoint and "access_token" in answer:
        more = _userinfo(provider, answer)
        if more.get("sub") != claims.get("sub"):
            raise _refusal(provider, Fault.WRONG_SUBJECT, "answered for another person")
        claims = {**more, **claims}
    facts = facts_of_claims(provider, claims)
    expires = claims.get("exp")
    lifetime = expires - time.time() if isinstance(expires, int | float) else 0.0
    return replace(
        facts,
        refresh_token=(token := _text(answer, "refresh_token") or former_token),
        is_renewable=bool(token),
        id_token=_text(answer, "id_token"),
        lifetime=max(lifetime, 0.0),
    )


def _userinfo(provider: OpenIdProvider, answer: Mapping[str, Any]) -> dict[str, Any]:
    endpoint = read_metadata(provider).userinfo_endpoint
    if not endpoint:
        raise _refusal(provider, Fault.NO_USERINFO, "sends neither an ID token nor has it a userinfo endpoint")
    return _request(provider, "GET", endpoint, headers={"Authorization": f"Bearer {_text(answer, 'access_token')}"})


def _token_request(provider: OpenIdProvider, form: dict[str, str]) -> dict[str, Any]:
    metadata = read_metadata(provider)
    auth = None
    if metadata.uses_basic_auth and provider.client_secret:  # both form-encoded first: RFC 6749, section 2.3.1
        auth = (quote_plus(provider.client_id), quote_plus(provider.client_secret))
    else:
        form |= {"client_id": provider.client_id}
        form |= {"client_secret": provider.client_secret} if provider.client_secret else {}
    return _request(provider, "POST", metadata.token_endpoint, form=form, auth=auth)


def _verify(provider: OpenIdProvider, encoded: str, required: list[str]) -> dict[str, Any]:
    import jwt  # noqa: PLC0415  # loaded by sign-ons only

    try:
        header = jwt.get_unverified_header(encoded)
        if header.get("alg") not in ALGORITHMS:
            raise _refusal(
                provider, Fault.BAD_ALGORITHM, f"signs with {str(header.get('alg'))[:20]!r}, which is not safe"
            )
        claims: dict[str, Any] = jwt.decode(
            encoded,
            _key(provider, header.get("kid"), header["alg"]),
            algorithms=list(ALGORITHMS),
            audience=provider.client_id,
            issuer=provider.issuer,
            leeway=LEEWAY,
            options={"require": required},
        )
    except jwt.PyJWTError as error:
        code = {
            "ExpiredSignatureError": Fault.EXPIRED,
            "InvalidAudienceError": Fault.WRONG_AUDIENCE,
            "InvalidIssuerError": Fault.WRONG_ISSUER,
            "ImmatureSignatureError": Fault.FROM_THE_FUTURE,
            "InvalidSignatureError": Fault.BAD_SIGNATURE,
        }.get(type(error).__name__, Fault.BAD_TOKEN)
        raise _refusal(provider, code, f"sent a token that is not valid ({error})") from error
    return _storable(provider, claims)


def _storable(provider: OpenIdProvider, found: dict[str, Any]) -> dict[str, Any]:
    """The same, if the database can keep its texts. Raises Forbidden with the name of the first that it cannot."""
    for name, value in found.items():
        if not are_storable({name: value}):
            where = f"{name[:100]!r}" if are_storable(name) else "a name"
            raise _refusal(provider, Fault.UNREADABLE_TEXT, f"sent a character that no text here can hold, in {where}")
    return found


def _key(provider: OpenIdProvider, key_id: str | None, algorithm: str) -> Any:
    """The public key of this id, fit for this algorithm. Raises Forbidden."""
    known = _known.setdefault(provider.issuer, _Known())
    age = time.monotonic() - known.keys_at
    if not known.keys or age >= KEYS_LIFE or (key_id not in known.keys and age >= KEYS_PAUSE):
        known.keys = _read_keys(provider)
        known.keys_at = time.monotonic()
    found = known.keys.get(key_id)
    if found is None and key_id is None and len(known.keys) == 1:
        found = next(iter(known.keys.values()))
    if found is None:
        raise _refusal(provider, Fault.UNKNOWN_KEY, "signs with a key that it does not publish")
    if found.key_type != _KEY_TYPES[algorithm[:2]]:
        raise _refusal(provider, Fault.BAD_ALGORITHM, f"signs with {algorithm} and a key of another kind")
    return found.key


def _read_keys(provider: OpenIdProvider) -> dict[str | None, Any]:
    import jwt  # noqa: PLC0415  # loaded by sign-ons only

    published = _request(provider, "GET", read_metadata(provider).jwks_uri).get("keys")
    found: dict[str | None, Any] = {}
    for each in published if isinstance(published, list) else []:
        if not isinstance(each, dict) or each.get("use", "sig") != "sig" or each.get("kty") not in ("RSA", "EC", "OKP"):
            continue
        key_id = each.get("kid")
        try:
            found[key_id if isinstance(key_id, str) else None] = jwt.PyJWK(each)
        except jwt.PyJWTError:
            continue  # a key of a kind that we do not read; tokens that it signs are refused
    return found


def _request(
    provider: OpenIdProvider,
    method: str,
    address: str,
    *,
    form: Mapping[str, str] | None = None,
    auth: tuple[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The JSON object that the provider answers with, without following redirects."""
    import httpx  # noqa: PLC0415  # loaded by sign-ons only

    sent = {"Accept": "application/json", **(headers or {})}
    try:
        with (
            _one_of_few(provider),
            httpx.Client(timeout=TIMEOUT, trust_env=True) as client,
            client.stream(method, address, data=form, auth=auth, headers=sent) as response,
        ):
            body = b""
            for piece in response.iter_bytes():
                body += piece
                if len(body) > MAX_ANSWER_BYTES:
                    raise _refusal(provider, Fault.ANSWER_TOO_LARGE, "answers with too much")
            status = response.status_code
        found = json.loads(body or "{}")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise _unreachable(provider, f"{address}: {str(error) or type(error).__name__}") from error
    if status >= 500 or status == 429:
        raise _unreachable(provider, f"{address} answers {status}")
    if status != 200:
        reason = found.get("error") if isinstance(found, dict) else None
        message = f"{provider.title} refused the sign-on ({str(reason or status)[:100]}). Sign on again."
        # A client secret that is not valid says nothing about the person.
        is_over = reason == "invalid_grant" or (status == 401 and reason != "invalid_client")
        kind = Refused if is_over else Forbidden
        raise kind.of([Violation("", Fault.PROVIDER_REFUSED, message)])
    if not isinstance(found, dict):
        raise _unreachable(provider, f"{address} answers no JSON object")
    return _storable(provider, found)


@contextmanager
def _one_of_few(provider: OpenIdProvider) -> Iterator[None]:
    if not _calls.acquire(blocking=False):
        raise Throttled(
            f"Many people sign on through {provider.title} right now. Try again in a moment.", retry_after=2
        )
    try:
        yield
    finally:
        _calls.release()


def _endpoint(provider: OpenIdProvider, found: Mapping[str, Any], name: str, *, is_needed: bool = True) -> str:
    address = _text(found, name)
    if not address and not is_needed:
        return ""
    parts = split_url(address)
    if parts and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)):
        return address
    raise _refusal(provider, Fault.BAD_ENDPOINT, f"publishes no https:// address as {name}")


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    return value if isinstance(value, str) else ""


def _unreachable(provider: OpenIdProvider, reason: str) -> Busy:
    logger.warning("The provider %s: %s", provider.name, reason)
    return Busy(
        f"{provider.title} does not answer. Try again in a moment; an account with a password can log in without it.",
        retry_after=5,
    )


def _refusal(provider: OpenIdProvider, code: Fault, reason: str) -> Forbidden:
    message = f"{provider.title} {reason}. Nobody was signed on. Try again, or tell an osmo-admin."
    return Forbidden(message, [Violation("", code, message)])
