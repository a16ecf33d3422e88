"""Each wrong configuration is named, and the unsafe ones stop the web server."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from osmo_admin import checks
from osmo_admin.env import EnvError, PasswordLogin, load_environment
from osmo_admin.ops.programs import process_commands
from pools.domain.configuration.cluster_addresses import LOOPBACK
from pools.sign_on.providers import OpenIdProvider, parse_parameters, parse_role_map
from tests.support.services import ROOT
from tests.support.stack import SECRET_KEY
from tests.support.up import clean_env, run_osmo_admin


def provider(issuer: str, **changes: Any) -> OpenIdProvider:
    """An identity provider with a role for one group."""
    roles = {"admins": frozenset({"osmo-admin"})}
    return dataclasses.replace(OpenIdProvider("corp", "Corp", issuer, "osmo", "x", roles_by_group=roles), **changes)


def check_ids(settings: Any, **env: Any) -> set[str]:
    """Ids of the messages of all our checks with these settings."""
    settings.OSMO = dataclasses.replace(settings.OSMO, **env)
    every = (
        checks.check_secret_key,
        checks.check_dev_login,
        checks.check_debug,
        checks.check_addresses,
        checks.check_sign_on,
        checks.check_durations,
        checks.check_private_files,
    )
    return {message.id or "" for check in every for message in check(None)}


@pytest.mark.parametrize("text", ["1_0", "010", "+10", "\u0661\u0662", "0x10", "ten", ""])
@pytest.mark.parametrize("name", ["OSMO_MAX_TASKS", "OSMO_SSO_CHECK_INTERVAL"])
def test_a_number_of_the_environment_is_one_for_every_reader(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    """Python alone reads `1_0` and `010` as 10; files and requests refuse them."""
    monkeypatch.setenv(name, text)
    with pytest.raises(EnvError, match=f"{name}.*number is expected, as 10"):
        load_environment()
    monkeypatch.setenv(name, " 12 ")
    assert 12 in {load_environment().max_tasks, load_environment().sign_on_check_interval}


@pytest.mark.parametrize(
    "name",
    [
        "OSMO_CLUSTER_ADDRESSES", "OSMO_CSRF_TRUSTED_ORIGINS", "OSMO_DOCS_URL", "OSMO_GATEWAYS", "OSMO_LOG_FORMAT",
        "OSMO_MAIL_URL", "OSMO_MAX_TASKS", "OSMO_NOTICE_ADDRESSES", "OSMO_PASSWORD_LOGIN", "OSMO_SECURE",
        "OSMO_SLACK_TOKEN", "OSMO_TRACES_URL",
    ],
)  # fmt: skip
def test_a_refused_setting_is_named_without_its_value(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "Canary7value")
    with pytest.raises(EnvError, match=name) as refusal:
        load_environment()
    assert "Canary7value" not in str(refusal.value)


@pytest.mark.parametrize(
    ("secure", "given", "found"),
    [
        ("false", None, list(LOOPBACK)),
        ("false", "", list(LOOPBACK)),
        ("true", None, []),
        ("true", "", []),
        ("true", "127.0.0.0/8,10.0.0.0/8", ["127.0.0.0/8", "10.0.0.0/8"]),
        ("false", "10.0.0.0/8", ["10.0.0.0/8"]),
    ],
)
def test_a_secure_server_lets_clusters_be_at_inner_addresses_only_where_they_are_named(
    monkeypatch: pytest.MonkeyPatch, secure: str, given: str | None, found: list[str]
) -> None:
    monkeypatch.setenv("OSMO_SECURE", secure)
    monkeypatch.delenv("OSMO_CLUSTER_ADDRESSES", raising=False)
    if given is not None:
        monkeypatch.setenv("OSMO_CLUSTER_ADDRESSES", given)
    assert load_environment().cluster_addresses == found


def test_checks_do_not_repeat_values(settings: Any) -> None:
    canary = "canary7value"
    settings.OSMO = dataclasses.replace(
        settings.OSMO, public_url=f"{canary}.example", sign_on_providers=(provider(f"{canary}.example"),)
    )
    found = [*checks.check_addresses(None), *checks.check_sign_on(None)]
    assert {"osmo.E003", "osmo.E012"} <= {message.id for message in found}
    assert canary not in str(found)
    for read in (parse_role_map, parse_parameters):
        with pytest.raises(ValueError, match="entry 2") as refusal:
            read([f"{'a=osmo-admin' if read is parse_role_map else 'a=b'}", canary])
        assert canary not in str(refusal.value)


def test_the_configuration_of_the_tests_is_clean(settings: Any) -> None:
    assert check_ids(settings) == set()
    checks.refuse_unsafe_settings()


@pytest.mark.parametrize(
    ("env", "id_"),
    [
        ({"dev_login": True, "secure": True, "public_url": "https://osmo.example"}, "osmo.E002"),
        ({"public_url": "osmo.example"}, "osmo.E003"),
        ({"public_url": "https://[fe80"}, "osmo.E003"),
        ({"sign_on_providers": (provider("https://[fe80"),)}, "osmo.E012"),
        ({"public_url": "http://osmo.example", "secure": True}, "osmo.E004"),
        ({"public_url": "", "secure": True}, "osmo.E011"),
        ({"public_url": "https://osmo.example", "secure": False}, "osmo.W009"),
        ({"debug": True, "secure": True, "public_url": "https://osmo.example"}, "osmo.E010"),
        ({"lock_timeout_ms": 60_000}, "osmo.W006"),
        ({"sign_on_providers": (provider("http://corp.example"),)}, "osmo.E012"),
        ({"sign_on_providers": (provider("https://corp.example", roles_by_group={}),)}, "osmo.E013"),
        ({"password_login": PasswordLogin.ADMINS}, "osmo.E014"),
    ],
    ids=[
        "dev and secure",
        "no scheme",
        "no address",
        "an issuer that is no address",
        "http and secure",
        "secure without address",
        "https and not secure",
        "debug and secure",
        "lock",
        "an issuer that can be forged",
        "no group has a role",
        "nobody can log in",
    ],
)
def test_one_mistake_one_message(env: dict[str, Any], id_: str, settings: Any) -> None:
    assert check_ids(settings, **env) == {id_}


def test_no_secret_key(settings: Any) -> None:
    settings.SECRET_KEY = "insecure-no-key-configured"
    assert check_ids(settings) == {"osmo.E001"}
    with pytest.raises(ImproperlyConfigured, match="OSMO_SECRET_KEY is not set"):
        checks.refuse_unsafe_settings()


@pytest.mark.parametrize("key", ["short", "x" * 50, "0123456789abcdef" + "0123456789abcd"])
def test_a_secret_key_that_can_be_guessed(key: str, settings: Any) -> None:
    settings.SECRET_KEY = key
    assert check_ids(settings) == {"osmo.E008"}
    with pytest.raises(ImproperlyConfigured, match="OSMO_SECRET_KEY can be guessed"):
        checks.refuse_unsafe_settings()


def test_a_short_former_key(settings: Any) -> None:
    settings.SECRET_KEY_FALLBACKS = ["short"]
    assert check_ids(settings) == {"osmo.W008"}
    checks.refuse_unsafe_settings()


@pytest.mark.parametrize("host", ["osmo.example", "*", "0.0.0.0"])
@pytest.mark.parametrize(("mode", "id_"), [("dev_login", "osmo.E009"), ("debug", "osmo.E010")])
def test_a_mode_for_one_machine_on_others(mode: str, id_: str, host: str, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
    assert check_ids(settings, **{mode: True}) == set()
    checks.refuse_unsafe_settings()
    settings.ALLOWED_HOSTS = ["localhost", host]
    assert check_ids(settings, **{mode: True}) == {id_}
    with pytest.raises(ImproperlyConfigured):
        checks.refuse_unsafe_settings()


@pytest.mark.parametrize(
    ("command", "env"),
    [
        (process_commands.web_command("127.0.0.1", 1, workers=1), {"OSMO_SECRET_KEY": "short"}),
        (process_commands.clusters_command(), {"OSMO_SECRET_KEY": "short"}),
        (process_commands.bootstrap_command(), {"OSMO_SECRET_KEY": "short"}),
        (process_commands.bootstrap_command(), {"OSMO_SECURE": "true", "OSMO_PUBLIC_URL": "http://osmo.example"}),
        (process_commands.bootstrap_command(), {"OSMO_DEV_LOGIN": "true", "OSMO_ALLOWED_HOSTS": "*"}),
        (process_commands.bootstrap_command(), {"OSMO_SECURE": "true", "OSMO_DEBUG": "true"}),
    ],
    ids=["web", "clusters", "prepare", "secure and http", "dev login and *", "secure and debug"],
)
def test_the_process_ends_with_the_reason(command: list[str], env: dict[str, str], settings: Any) -> None:
    usual = {"OSMO_SECRET_KEY": SECRET_KEY, "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    answer = subprocess.run(
        command, env=clean_env({**usual, **env}), capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )
    assert answer.returncode != 0
    assert any(name in answer.stdout + answer.stderr for name in env)


@pytest.mark.parametrize(("name", "value"), [("OSMO_SECRET_KEY", "short"), ("OSMO_MAX_TASKS", "many")])
def test_serving_ends_before_the_server_that_restarts_its_workers(name: str, value: str) -> None:
    usual = {"OSMO_SECRET_KEY": SECRET_KEY, "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    answer = run_osmo_admin("serve", "web", "--port", "1", env={**usual, name: value})
    assert answer.returncode == 1
    (line,) = answer.stderr.splitlines()
    assert name in line


def test_every_host_allowed_in_secure_mode(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    assert check_ids(settings, secure=True, public_url="https://osmo.example") == {"osmo.W005"}


def test_an_unsupported_broker(settings: Any) -> None:
    settings.REDIS_URL = "amqp://localhost"
    assert check_ids(settings) == {"osmo.E005"}


@pytest.mark.parametrize(("mode", "ids"), [(0o600, set()), (0o644, {"osmo.E007"}), (0o640, {"osmo.E007"})])
def test_secrets_that_others_can_read(mode: int, ids: set[str], settings: Any, tmp_path: Path) -> None:
    (tmp_path / "runtime.json").touch()
    (tmp_path / "runtime.json").chmod(mode)
    assert check_ids(settings, data_dir=tmp_path) == ids


@pytest.mark.parametrize(
    ("named", "is_used"), [("", True), ("postgresql://a@x/osmo", True), ("postgresql://b@y/z", False)]
)
def test_a_command_for_another_database_takes_nothing_from_the_installation_of_the_folder(
    named: str, is_used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`osmo-admin demo` would write as the owner of that installation, and notifications would go to its broker."""
    theirs = {
        "DATABASE_URL": "postgresql://a@x/osmo", "OSMO_OWNER_DATABASE_URL": "postgresql://o@x/osmo",
        "REDIS_URL": "redis://x:1/0",
    }  # fmt: skip
    (tmp_path / "runtime.json").write_text(json.dumps(theirs))
    with monkeypatch.context() as patch:
        patch.setattr(os, "environ", {"OSMO_ADMIN_HOME": str(tmp_path), "OSMO_SECRET_KEY": SECRET_KEY})
        if named:
            os.environ["DATABASE_URL"] = named
        found = load_environment()
    assert found.database_url == (named or theirs["DATABASE_URL"])
    assert (found.owner_database_url == theirs["OSMO_OWNER_DATABASE_URL"]) is is_used
    assert (found.redis_url == theirs["REDIS_URL"]) is is_used
