"""An OpenID provider as a process of its own, written for its faults: `python -m tests.support.oidc_provider`, which
prints its port.

It follows OpenID Connect Core (authorization code with PKCE, refresh tokens that are used once) and signs with keys of
its own. `POST /control` with JSON changes what it does next: `{"person": {...claims}}`, `{"rotate": true}`,
`{"fault": {"alg": "none"}}` and the others in `sign`, `{"end": SUBJECT}`, `{"down": true}`. The independent provider of
`tests/integration/sign_on/conftest.py` shows that we speak with code of others, too.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

CLIENT_ID, CLIENT_SECRET = "osmo", "a secret of the client"


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class State:
    """What the provider knows."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.person: dict[str, Any] = {"sub": "s-1", "preferred_username": "ann", "groups": []}
        self.fault: dict[str, Any] = {}
        self.is_down = False
        self.codes: dict[str, dict[str, str]] = {}
        self.refresh_tokens: dict[str, str] = {}
        self.people: dict[str, dict[str, Any]] = {}
        self.calls = 0
        self.rotate()

    def rotate(self) -> None:
        """Another key; the former one is no longer published."""
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.key_id = secrets.token_hex(4)

    @property
    def public_pem(self) -> bytes:
        return self.key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def sign(self, claims: dict[str, Any]) -> str:
        """A signed token, with the requested fault."""
        fault = self.fault
        claims = claims | fault.get("claims", {})
        for name in fault.get("without", []):
            claims.pop(name, None)
        algorithm = fault.get("alg", "RS256")
        header = {"alg": algorithm, "typ": "JWT", "kid": fault.get("kid", self.key_id)}
        signed = f"{_b64(json.dumps(header).encode())}.{_b64(json.dumps(claims).encode())}"
        if algorithm == "none":
            return f"{signed}."
        if algorithm == "HS256":  # the public key, which everybody knows, as the secret
            return f"{signed}.{_b64(hmac.digest(self.public_pem, signed.encode(), hashlib.sha256))}"
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048) if fault.get("forged") else self.key
        return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": header["kid"]})

    def tokens(self, subject: str, nonce: str | None) -> dict[str, Any]:
        """The answer of the token endpoint."""
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "sid": f"sid-{subject}"}
        claims |= self.people[subject] | ({"nonce": nonce} if nonce else {})
        refresh = secrets.token_urlsafe(8)
        self.refresh_tokens[refresh] = subject
        answer = {"token_type": "Bearer", "expires_in": 300, "access_token": "unused", "refresh_token": refresh}
        return answer | {"id_token": self.sign(claims)}


class Handler(BaseHTTPRequestHandler):
    """The endpoints."""

    state: State

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        state = self.state
        if state.is_down:
            return self._answer(503, {"error": "down"})
        if parts.path == "/.well-known/openid-configuration":
            names = {"authorization_endpoint": "auth", "token_endpoint": "token", "jwks_uri": "keys"}
            found = {name: f"{state.issuer}/{end}" for name, end in names.items()}
            found |= {"issuer": state.fault.get("issuer", state.issuer), "end_session_endpoint": f"{state.issuer}/end"}
            return self._answer(200, found | state.fault.get("endpoints", {}))
        if parts.path == "/keys":
            public = json.loads(RSAAlgorithm.to_jwk(state.key.public_key()))
            signing = public | {"kid": state.key_id, "use": "sig", "alg": "RS256"}
            return self._answer(200, {"keys": [{"kty": ["RSA"]}, public | {"kid": {}}, signing]})
        if parts.path == "/auth":
            assert query["code_challenge_method"] == "S256"
            code = secrets.token_urlsafe(8)
            state.codes[code] = query
            state.people[state.person["sub"]] = dict(state.person)
            query["sub"] = state.person["sub"]
            self.send_response(302)
            target = {"code": code, "state": query["state"], "iss": state.issuer}
            self.send_header("Location", f"{query['redirect_uri']}?{urlencode(target)}")
            return self.end_headers()
        return self._answer(404, {"error": "not_found"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        state = self.state
        if self.path == "/control":
            return self._control(json.loads(body))
        if state.is_down:
            return self._answer(503, {"error": "down"})
        form = {key: values[0] for key, values in parse_qs(body).items()}
        expected = base64.b64encode(f"{quote_plus(CLIENT_ID)}:{quote_plus(CLIENT_SECRET)}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {expected}":
            return self._answer(401, {"error": "invalid_client"})
        state.calls += 1
        if form["grant_type"] == "authorization_code":
            login = state.codes.pop(form["code"], None)
            challenge = _b64(hashlib.sha256(form["code_verifier"].encode()).digest())
            if login is None or challenge != login["code_challenge"] or form["redirect_uri"] != login["redirect_uri"]:
                return self._answer(400, {"error": "invalid_grant"})
            return self._answer(200, state.tokens(login["sub"], login["nonce"]))
        subject = state.refresh_tokens.pop(form["refresh_token"], None)
        if subject is None or subject not in state.people:
            return self._answer(400, {"error": "invalid_grant"})
        return self._answer(200, state.tokens(subject, None))

    def _control(self, orders: dict[str, Any]) -> None:
        state = self.state
        state.fault = orders.get("fault", state.fault)
        state.is_down = orders.get("down", state.is_down)
        if "person" in orders:
            state.person = orders["person"]
            if state.person["sub"] in state.people:
                state.people[state.person["sub"]] = dict(state.person)
        if orders.get("rotate"):
            state.rotate()
        state.people.pop(orders.get("end", ""), None)
        answer: dict[str, Any] = {"calls": state.calls}
        if "sign" in orders:
            now = int(time.time())
            claims = {"iss": state.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 60, "jti": secrets.token_hex(4)}
            answer["token"] = state.sign(claims | orders["sign"])
        self._answer(200, answer)

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Handler.state = State(f"http://127.0.0.1:{server.server_port}")
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
