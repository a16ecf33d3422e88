"""The WSGI environment (PEP 3333) of a request that granian describes as an RSGI scope."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

from pools.api.stream_pauses import PAUSES

if TYPE_CHECKING:
    from granian.rsgi import Scope

_CONSTANT: dict[str, Any] = {
    PAUSES: True,
    "SCRIPT_NAME": "",
    "SERVER_SOFTWARE": "granian",
    "wsgi.errors": sys.stderr,
    "wsgi.input_terminated": True,
    "wsgi.multiprocess": True,
    "wsgi.multithread": True,
    "wsgi.run_once": False,
    "wsgi.version": (1, 0),
}


def make_environ(scope: Scope, path: str, body: bytes) -> dict[str, Any]:
    """The environment with the whole body as `wsgi.input`."""
    client, server = scope.client, scope.server
    host, _, port = server.rpartition(":")
    environ: dict[str, Any] = {
        **_CONSTANT,
        "REQUEST_METHOD": scope.method,
        "PATH_INFO": _as_latin_1(path),
        "QUERY_STRING": _as_latin_1(scope.query_string),
        "REMOTE_ADDR": client.rpartition(":")[0].strip("[]"),
        "SERVER_NAME": host.strip("[]"),
        "SERVER_PORT": port,
        "SERVER_PROTOCOL": "HTTP/" + scope.http_version,
        "wsgi.url_scheme": scope.scheme,
        "wsgi.input": io.BytesIO(body),
    }
    for name, value in scope.headers.items():
        # `X_Real` and `X-Real` have one name in the environment, so a client could pass for a proxy with the first.
        if "_" in name:
            continue
        key = _VARIABLES.get(name) or "HTTP_" + name.upper().replace("-", "_")
        if key in environ:
            environ[key] += ("; " if key == "HTTP_COOKIE" else ",") + value
        else:
            environ[key] = value
    if "HTTP_TRANSFER_ENCODING" in environ:
        environ["CONTENT_LENGTH"] = str(len(body))
    return environ


_VARIABLES = {"content-length": "CONTENT_LENGTH", "content-type": "CONTENT_TYPE"}


def _as_latin_1(text: str) -> str:
    return text if text.isascii() else text.encode().decode("latin-1")
