"""Roles that groups of a provider give, together with a configuration in Git: following docs/git.md takes none over."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from osmo_admin.cli.server import app
from osmo_admin.cli.server_commands import configuration
from pools.models import ConfigurationOwner, User
from pools.sign_on.accounts import sign_on
from pools.sign_on.providers import OpenIdProvider, ProviderFacts, SyncMode
from tests.support.world import make_user, sign_in

pytestmark = pytest.mark.django_db

CORP = OpenIdProvider(
    "corp", "Corp", "https://id.example", "osmo", "", roles_by_group={"gpu-admins": frozenset({"osmo-admin"})}
)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(configuration, "use_django", lambda data_dir: None)
    monkeypatch.setattr("osmo_admin.cli.server_commands.users.use_django", lambda data_dir: None)

    def call(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, arguments)
        return result.exit_code, result.output

    return call


@pytest.fixture
def firm(settings: Any) -> None:
    """root by hand, and eve whom a group of Corp has made an admin."""
    settings.OSMO = dataclasses.replace(settings.OSMO, sign_on_providers=(CORP,))
    make_user("root", "osmo-admin")
    make_user("old", "osmo-viewer")
    sign_on_with("eve", "gpu-admins")


def sign_on_with(name: str, *groups: str) -> User:
    facts = ProviderFacts(CORP.issuer, name, username=name, groups=groups, is_renewable=True, refresh_token="x")
    return sign_on(provider=CORP, facts=facts)


def roles_of(name: str) -> set[str]:
    return set(User.objects.get(username=name).as_actor().roles)


def test_export_and_apply_leave_a_role_of_groups_to_the_groups(run: Any, firm: None, tmp_path: Path) -> None:
    code, text = run("export", "-f", str(tmp_path))
    assert code == 0 and [path.name for path in (tmp_path / "roles").iterdir()] == ["osmo-viewer.yaml"]
    assert "because groups of a provider give them: osmo-admin." in text
    assert run("apply", "-f", str(tmp_path))[0] == 0
    assert not ConfigurationOwner.objects.filter(kind="role", name="osmo-admin").exists()
    sign_on_with("ann", "gpu-admins")
    assert roles_of("ann") == {"osmo-admin"}
    sign_on_with("ann")
    assert roles_of("ann") == set()


def test_a_role_of_groups_that_git_owns_already_is_exported(run: Any, firm: None, tmp_path: Path) -> None:
    (tmp_path / "roles").mkdir()
    (tmp_path / "roles" / "osmo-admin.yaml").write_text("roles:\n  osmo-admin: {users: [root]}\n")
    run("export", "-f", str(tmp_path))
    names = {path.name for path in (tmp_path / "roles").iterdir()}
    assert names == {"osmo-admin.yaml", "osmo-viewer.yaml"}, "the file of a role that is left out is not removed"
    assert run("apply", "-f", str(tmp_path))[0] == 0
    code, text = run("export", "-f", str(tmp_path))
    assert code == 0 and "Not written" not in text


def test_without_the_settings_of_the_provider_the_assignments_tell(
    run: Any, firm: None, settings: Any, tmp_path: Path
) -> None:
    settings.OSMO = dataclasses.replace(settings.OSMO, sign_on_providers=())
    assert "groups of a provider give them: osmo-admin." in run("export", "-f", str(tmp_path))[1]


def test_diff_and_apply_warn_before_git_owns_a_role_of_groups(run: Any, firm: None, tmp_path: Path) -> None:
    (tmp_path / "roles.yaml").write_text("roles:\n  osmo-admin: {users: [eve, root]}\n  osmo-viewer: {users: [old]}\n")
    warning = "Groups of a provider give the role osmo-admin. Once Git owns it, they neither give nor take it"
    for command in (["diff"], ["apply", "--dry-run"], ["apply"]):
        text = run(*command, "-f", str(tmp_path))[1]
        assert warning in text and "the role osmo-viewer" not in text, command
    assert warning not in run("diff", "-f", str(tmp_path))[1]  # it is done, and the page of each person says it


def test_the_page_of_the_person_says_that_git_owns_the_role(firm: None) -> None:
    browser = sign_in("root")
    address, sentence = "/users/eve", "Git owns the role osmo-admin, so groups neither give nor take it."
    assert sentence not in browser.get(address).content.decode()
    ConfigurationOwner.objects.create(kind="role", name="osmo-admin", source="git")
    assert sentence in browser.get(address).content.decode()
    assert sentence not in browser.get("/users/root").content.decode()  # no provider decides there


def test_a_provider_whose_groups_change_nothing_gives_no_role(run: Any, settings: Any, tmp_path: Path) -> None:
    ignoring = dataclasses.replace(CORP, sync=SyncMode.IGNORE)
    settings.OSMO = dataclasses.replace(settings.OSMO, sign_on_providers=(ignoring,))
    make_user("root", "osmo-admin")
    assert "groups of a provider" not in run("export", "-f", str(tmp_path))[1]
    assert (tmp_path / "roles" / "osmo-admin.yaml").exists()
