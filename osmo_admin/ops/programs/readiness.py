"""The readiness of a running server."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass

# Without the proxy of the environment, because the server is on this machine.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class Readiness:
    """`is_ready`: web answers and every check, also beat, passes. `reason`: the failed checks."""

    is_ready: bool
    reason: str


def local_url(host: str, port: int) -> str:
    """The URL by which this machine reaches a server that listens on `host`."""
    if host in {"", "0.0.0.0"}:  # noqa: S104  (compared, not listened on)
        host = "127.0.0.1"
    if host == "::":
        host = "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def check_readiness(url: str, *, timeout: float = 5.0) -> Readiness:
    """Request `/ready` once."""
    try:
        with _OPENER.open(f"{url}/ready", timeout=timeout) as answer:
            body = json.load(answer)
    except urllib.error.HTTPError as refusal:
        try:
            body = json.load(refusal)
        except ValueError:
            return Readiness(False, f"web answers {refusal.code} to /ready")
    except (OSError, ValueError) as problem:
        return Readiness(False, f"web does not answer ({getattr(problem, 'reason', problem)})")
    checks = body.get("checks", {})
    missing = [f"{name}: {check['message']}" for name, check in checks.items() if not check["ok"]]
    return Readiness(bool(checks) and not missing, "; ".join(missing))
