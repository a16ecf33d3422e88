"""The allowed content of a kubeconfig that a client sends. The server uses it on its own machine, so it may contain no
commands to run and no paths to read: the credentials must be in the text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pools.domain.configuration.cluster_addresses import AddressRule
from pools.domain.errors import Fault, Violation
from pools.domain.structured_input.fields import shorten_value
from pools.domain.values.urls import split_url

PATH = "kubeconfig"
MAX_LENGTH = 262_144
_FILES = {
    "cluster": {"certificate-authority": "certificate-authority-data"},
    "user": {
        "client-certificate": "client-certificate-data",
        "client-key": "client-key-data",
        "tokenFile": "token",
    },
}
_TEXTS = {
    "cluster": ("certificate-authority-data", "tls-server-name"),
    "user": ("token", "username", "password", "client-certificate-data", "client-key-data"),
}
"""A reader of YAML makes another value of `token: 010`, so without quotes another credential would be sent."""
_COMMANDS = ("exec", "auth-provider")


@dataclass(frozen=True, slots=True)
class KubeconfigFacts:
    """The public facts of a kubeconfig: the context, its server and its user."""

    context: str
    server: str
    user: str
    warnings: tuple[str, ...] = ()


def read_kubeconfig(
    content: object, context: str = "", *, addresses: AddressRule
) -> tuple[KubeconfigFacts, list[Violation]]:
    """The facts of the chosen context (empty: the current one), and every reason why it cannot be used. `addresses` is
    the rule on the addresses of the API server and of a proxy. No message repeats a credential."""
    faults: list[Violation] = []
    if not isinstance(content, Mapping):
        return KubeconfigFacts("", "", ""), [_fault("", Fault.BAD_VALUE, "must be a kubeconfig: a YAML object")]
    chosen = context or content.get("current-context") or ""
    entry = _find_row(content, "contexts", chosen)
    if entry is None:
        known = ", ".join(sorted(_row_names(content, "contexts"))) or "none"
        sentence = f"does not have this context; it has {known}" if chosen else "names no current-context"
        return KubeconfigFacts(str(chosen), "", ""), [_fault("contexts", Fault.UNKNOWN_NAME, sentence)]
    inner = _part(entry, "context")
    found: dict[str, Mapping[str, Any]] = {}
    for part in ("cluster", "user"):
        name = inner.get(part)
        there = _find_row(content, f"{part}s", name)
        if there is None:
            faults.append(_fault(f"{part}s", Fault.UNKNOWN_NAME, f"does not have the {part} that the context names"))
        else:
            found[part] = _part(there, part)
            faults += _find_external_references(part, found[part])
            faults += [
                _fault(f"{part}s.{key}", Fault.BAD_VALUE, f"has no text at {key}: put the value in quotes")
                for key in _TEXTS[part]
                if not isinstance(found[part].get(key), str | None)
            ]
    server, more = _server(found.get("cluster", {}))
    warnings = []
    if "cluster" in found:
        faults += [*more, *_address_faults(found["cluster"], addresses)]
        warnings = _warnings(found["cluster"], server)
    if "user" in found and not any(found["user"].get(key) for key in (*_TEXTS["user"], *_FILES["user"], *_COMMANDS)):
        warnings.append("The user has no token, password or client certificate: the cluster sees an anonymous client.")
    return KubeconfigFacts(str(chosen), server, str(inner.get("user") or ""), tuple(warnings)), faults


def _find_external_references(part: str, content: Mapping[str, Any]) -> list[Violation]:
    found = [
        _fault(
            f"{part}s.{key}",
            Fault.REACHES_INTO_SERVER,
            f"names the file {key} of some machine; put its content into the kubeconfig instead ({instead})",
        )
        for key, instead in _FILES[part].items()
        if content.get(key)
    ]
    if part == "user":
        found += [
            _fault(
                f"users.{key}",
                Fault.REACHES_INTO_SERVER,
                f"would run a command of this machine ({key}); use a token or a client certificate, or a kubeconfig "
                "that the operator keeps on the server",
            )
            for key in _COMMANDS
            if content.get(key)
        ]
    return found


def _server(cluster: Mapping[str, Any]) -> tuple[str, list[Violation]]:
    server = cluster.get("server")
    parts = split_url(server)
    if parts is None or parts.scheme not in {"https", "http"} or not parts.hostname:
        return "", [_fault("clusters.server", Fault.BAD_VALUE, "names no https:// address of an API server")]
    if parts.username or parts.password:
        return "", [_fault("clusters.server", Fault.BAD_VALUE, "holds a user in its address; name it under users")]
    return str(server).rstrip("/"), []


def _address_faults(cluster: Mapping[str, Any], rule: AddressRule) -> list[Violation]:
    """Addresses that a client may not name. A name is checked again when it is called, by its addresses."""
    faults = []
    for key in ("server", "proxy-url"):
        text = cluster.get(key)
        if text is None:
            continue
        parts = split_url(text)
        host = parts.hostname if parts is not None and parts.scheme in {"http", "https"} else None
        if key == "proxy-url" and not host:
            faults.append(_fault("clusters.proxy-url", Fault.BAD_VALUE, "names no http:// address of a proxy"))
        elif host and (fault := rule.find_fault(host)) is not None:
            place = "server" if key == "server" else "proxy"
            faults.append(
                _fault(
                    f"clusters.{key}", Fault.ADDRESS_REFUSED, f"names the {place} {shorten_value(host)}, which {fault}"
                )
            )
    return faults


def _warnings(cluster: Mapping[str, Any], server: str) -> list[str]:
    found = []
    if server.startswith("http://"):
        found.append(f"{server} is not encrypted: a listener on the network path can read the credential.")
    if cluster.get("insecure-skip-tls-verify"):
        found.append("insecure-skip-tls-verify is on: a machine on the network path can pose as the cluster.")
    return found


def _find_row(content: Mapping[str, Any], key: str, name: object) -> Mapping[str, Any] | None:
    rows = content.get(key)
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, Mapping) and name and row.get("name") == name:
            return row
    return None


def _row_names(content: Mapping[str, Any], key: str) -> list[str]:
    rows = content.get(key)
    found = [row.get("name") for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    return [shorten_value(name) for name in found if isinstance(name, str)]


def _part(row: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = row.get(key)
    return value if isinstance(value, Mapping) else {}


def _fault(below: str, code: Fault, sentence: str) -> Violation:
    path = f"{PATH}.{below}" if below else PATH
    return Violation(path, code, f"The kubeconfig {sentence}.")
