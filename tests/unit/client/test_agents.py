"""The entry points for kubectl and for agents."""

from __future__ import annotations

import sys
import tomllib

import pytest

from osmo_admin.cli.commands.agents import MISSING
from tests.support.services import ROOT
from tests.unit.client.conftest import ClientRunner


def test_kubectl_finds_the_client_as_a_plugin() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-osmo"] == scripts["osmo"]


def test_without_the_extra_the_command_says_what_to_install(
    osmo: ClientRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mcp_server", "mcp_http"):
        monkeypatch.delitem(sys.modules, f"osmo_admin.cli.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    result = osmo("mcp")
    assert result.exit_code == 2
    assert MISSING in result.stderr


@pytest.mark.parametrize("address", ["8100", "localhost:", "localhost:http", "localhost:99999"])
def test_a_wrong_address_to_listen_on_is_refused(osmo: ClientRunner, address: str) -> None:
    result = osmo("mcp", "--listen", address)
    assert result.exit_code == 2
    assert "HOST:PORT" in result.stderr
