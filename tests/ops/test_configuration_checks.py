"""Each wrong configuration is named, and the unsafe ones stop the web server."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from osmo_admin import checks


def check_ids(settings: Any, **env: Any) -> set[str]:
    """Ids of the messages of all our checks with these settings."""
    settings.OSMO = dataclasses.replace(settings.OSMO, **env)
    every = (
        checks.check_secret_key,
        checks.check_dev_login,
        checks.check_addresses,
        checks.check_durations,
        checks.check_private_files,
    )
    return {message.id or "" for check in every for message in check(None)}


def test_the_configuration_of_the_tests_is_clean(settings: Any) -> None:
    assert check_ids(settings) == set()
    checks.refuse_unsafe_settings()


@pytest.mark.parametrize(
    ("env", "id_"),
    [
        ({"dev_login": True, "secure": True, "public_url": "https://osmo.example"}, "osmo.E002"),
        ({"public_url": "osmo.example"}, "osmo.E003"),
        ({"public_url": "http://osmo.example", "secure": True}, "osmo.E004"),
        ({"lock_timeout_ms": 60_000}, "osmo.W006"),
    ],
    ids=["dev and secure", "no scheme", "http and secure", "lock"],
)
def test_one_mistake_one_message(env: dict[str, Any], id_: str, settings: Any) -> None:
    assert check_ids(settings, **env) == {id_}


def test_no_secret_key(settings: Any) -> None:
    settings.SECRET_KEY = "insecure-no-key-configured"
    assert check_ids(settings) == {"osmo.E001"}
    with pytest.raises(ImproperlyConfigured, match="OSMO_SECRET_KEY is not set"):
        checks.refuse_unsafe_settings()


def test_dev_login_on_a_public_address(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["localhost", "osmo.example"]
    assert check_ids(settings, dev_login=True) == {"osmo.W002"}
    checks.refuse_unsafe_settings()


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
