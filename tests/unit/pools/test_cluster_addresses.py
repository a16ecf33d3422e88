"""The addresses that a kubeconfig of a client may name."""

from __future__ import annotations

import pytest

from pools.domain.configuration.cluster_addresses import LOOPBACK, AddressRule
from pools.domain.configuration.kubeconfig import _TEXTS, read_kubeconfig

NONE = AddressRule()
REFUSED = {
    "127.0.0.1": "loopback", "127.9.9.9": "loopback", "::1": "loopback", "[::1]": "loopback", "localhost": "loopback",
    "api.localhost.": "loopback", "LOCALHOST": "loopback", "::ffff:127.0.0.1": "loopback",
    "64:ff9b::7f00:1": "loopback",
    "2002:7f00:1::": "loopback", "::127.0.0.1": "loopback", "169.254.169.254": "link-local", "fe80::1": "link-local",
    "fe80::1%eth0": "link-local", "::ffff:169.254.169.254": "link-local", "0.0.0.0": "unspecified",
    "0.1.2.3": "unspecified", "::": "unspecified", "fd00:ec2::254": "metadata", "100.100.100.200": "metadata",
    "168.63.129.16": "metadata", "224.0.0.1": "no address", "255.255.255.255": "no address", "ff02::1": "no address",
}  # fmt: skip


@pytest.mark.parametrize("host", REFUSED)
def test_refused(host: str) -> None:
    fault = NONE.find_fault(host)
    assert fault is not None
    assert REFUSED[host] in fault
    assert "OSMO_CLUSTER_ADDRESSES" in fault


@pytest.mark.parametrize("host", ["10.0.0.1", "192.168.1.9", "203.0.113.5", "fd12::1", "2001:db8::1", "kube.example"])
def test_allowed(host: str) -> None:
    assert NONE.find_fault(host) is None


def test_an_operator_may_allow_networks() -> None:
    rule = AddressRule.of([*LOOPBACK, "169.254.7.0/24"])
    allowed = ["127.0.0.1", "::1", "localhost", "169.254.7.7"]
    assert [rule.find_fault(host) for host in allowed] == [None] * len(allowed)
    assert rule.find_fault("169.254.169.254") is not None
    with pytest.raises(ValueError, match="does not appear"):
        AddressRule.of(["nowhere"])


@pytest.mark.parametrize(
    ("cluster", "path", "words"),
    [
        ({"server": "https://127.0.0.1:6443"}, "kubeconfig.clusters.server", "server 127.0.0.1, which is a loopback"),
        ({"server": "http://169.254.169.254/latest/meta-data?x="}, "kubeconfig.clusters.server", "link-local"),
        ({"server": "https://k", "proxy-url": "http://[::1]:3128"}, "kubeconfig.clusters.proxy-url", "the proxy ::1"),
        ({"server": "https://kube", "proxy-url": "socks5://10.0.0.1"}, "kubeconfig.clusters.proxy-url", "no http://"),
        ({"server": "https://[fe80"}, "kubeconfig.clusters.server", "names no https://"),
        ({"server": "https://kube\u2100"}, "kubeconfig.clusters.server", "names no https://"),
        ({"server": "https://kube:64:43"}, "kubeconfig.clusters.server", "names no https://"),
        ({"server": "https://kube", "proxy-url": "http://proxy:x"}, "kubeconfig.clusters.proxy-url", "no http://"),
        ({"server": "https://kube", "proxy-url": 7}, "kubeconfig.clusters.proxy-url", "no http://"),
    ],
)  # fmt: skip
def test_a_kubeconfig_that_points_there_is_refused(cluster: dict[str, object], path: str, words: str) -> None:
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    (fault,) = read_kubeconfig(content, addresses=NONE)[1]
    assert fault.path == path
    assert words in fault.message
    assert fault.message.startswith("The kubeconfig names")


@pytest.mark.parametrize(
    ("user", "is_warned"),
    [({"token": "t"}, False), ({"client-certificate-data": "c"}, False), ({"tokenn": "t"}, True), ({}, True)],
)
def test_a_user_without_a_credential_is_told(user: dict[str, object], is_warned: bool) -> None:
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://k"}}],
        "users": [{"name": "u", "user": user}],
    }
    facts, faults = read_kubeconfig(content, addresses=NONE)
    assert faults == []
    assert any("no token, password or client certificate" in warning for warning in facts.warnings) is is_warned


@pytest.mark.parametrize("value", [8, True, 1.5, ["t"]])
@pytest.mark.parametrize(("part", "key"), [(part, key) for part, keys in _TEXTS.items() for key in keys])
def test_a_credential_that_is_no_text_is_refused(part: str, key: str, value: object) -> None:
    parts = {"cluster": {"server": "https://k"}, "user": {}}
    parts[part] = {**parts[part], key: value}  # type: ignore[dict-item]
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": parts["cluster"]}],
        "users": [{"name": "u", "user": parts["user"]}],
    }
    _, faults = read_kubeconfig(content, addresses=NONE)
    assert [(fault.path, fault.code) for fault in faults] == [(f"kubeconfig.{part}s.{key}", "bad_value")]
