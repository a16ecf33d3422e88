"""The rotation of the secret key: nothing that was sealed is lost, and at its end nothing needs the former key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.db import models
from typer.testing import CliRunner

from osmo_admin.cli.server import app
from osmo_admin.ops.files import keys
from osmo_admin.ops.files.data_directory import DataDirectory
from pools.domain.changes.backends import PutBackend
from pools.domain.errors import Conflict, Forbidden
from pools.domain.people.roles import SYSTEM, Actor
from pools.models import AuditEntry, KubernetesSettings, SecretKeyCheck
from pools.security.sealing import UnreadableSecret, find_reading_key, key_marks, seal, unseal
from pools.services.changes.secret_key import (
    SEALED_FIELDS,
    adopt_present_key,
    claim_database,
    list_sealed_with_former_keys,
    seal_again,
)
from tests.support.world import apply_change

FORMER, PRESENT = "former-" + "0123456789" * 5, "present-" + "0123456789" * 5
KUBECONFIG = json.dumps(
    {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://cluster.example:6443"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
)  # fmt: skip


@pytest.fixture
def sealed(db: None, settings: object) -> KubernetesSettings:
    """A kubeconfig that was sealed with the former key; the present key is another one."""
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = FORMER, []  # type: ignore[attr-defined]
    apply_change(PutBackend(name="prod", body={"type": "kubernetes", "namespace": "ns", "kubeconfig": KUBECONFIG}))
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = PRESENT, [FORMER]  # type: ignore[attr-defined]
    return KubernetesSettings.objects.get()


def test_everything_is_sealed_again_and_the_former_key_is_of_no_use(
    sealed: KubernetesSettings, settings: object
) -> None:
    assert list_sealed_with_former_keys() == [f"kubernetes settings {sealed.pk}"]
    done = seal_again(actor=SYSTEM)
    assert (done.sealed, done.present, done.unreadable) == (1, 0, ())
    assert list_sealed_with_former_keys() == []
    settings.SECRET_KEY_FALLBACKS = []  # type: ignore[attr-defined]
    row = KubernetesSettings.objects.get()
    assert unseal(row.sealed_kubeconfig) == KUBECONFIG
    assert row.credential_mark != sealed.credential_mark
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = FORMER, []  # type: ignore[attr-defined]
    with pytest.raises(UnreadableSecret):
        unseal(row.sealed_kubeconfig)
    entry = AuditEntry.objects.filter(object="backend/prod").latest("id")
    assert entry.description == "sealed with the new secret key"
    assert "sealed_kubeconfig" not in entry.after


def test_it_may_be_repeated(sealed: KubernetesSettings) -> None:
    seal_again(actor=SYSTEM)
    count = AuditEntry.objects.count()
    done = seal_again(actor=SYSTEM)
    assert (done.sealed, done.present) == (0, 1)
    assert AuditEntry.objects.count() == count


def test_what_no_key_reads_is_named_and_left_alone(sealed: KubernetesSettings, settings: object) -> None:
    settings.SECRET_KEY_FALLBACKS = []  # type: ignore[attr-defined]
    done = seal_again(actor=SYSTEM)
    assert done.unreadable == (f"kubernetes settings {sealed.pk}",)
    assert KubernetesSettings.objects.get().sealed_kubeconfig == sealed.sealed_kubeconfig


def test_each_service_that_seals_has_its_columns_in_the_list() -> None:
    root = Path(__file__).parents[3]
    callers = {
        path.relative_to(root).as_posix()
        for package in ("pools", "scheduling", "osmo_admin")
        for path in (root / package).rglob("*.py")
        if "import" in (text := path.read_text()) and ("seal(" in text.replace("unseal(", ""))
    } - {
        "pools/security/sealing.py",
        "pools/services/changes/secret_key.py",
        "osmo_admin/cli/server_commands/secret_key.py",
    }
    # Kept for an hour, and asked for again or left out if no key reads it:
    callers -= {"pools/admin/kept_input.py", "pools/services/changes/shown_effects.py"}
    assert callers == {
        "pools/services/configuration/cluster_credentials.py",
        "pools/services/people/notice_targets.py",
        "pools/sign_on/accounts.py",
    }, "a service that seals something needs its column in SEALED_FIELDS, and its name here"
    assert all(isinstance(model._meta.get_field(field), models.TextField) for model, field in SEALED_FIELDS)


class TestKeyOfTheDatabase:
    """The check value by which processes know whether they have the key of this database."""

    @pytest.fixture
    def claimed(self, db: None, settings: Any) -> None:
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = FORMER, []
        claim_database()

    def test_it_is_claimed_once(self, claimed: None) -> None:
        first = SecretKeyCheck.objects.get().sealed
        claim_database()
        assert SecretKeyCheck.objects.get().sealed == first
        assert FORMER not in first

    def test_another_key_is_refused(self, claimed: None, settings: Any) -> None:
        settings.SECRET_KEY = PRESENT
        with pytest.raises(Conflict, match="OSMO_SECRET_KEY is not the key of this database"):
            claim_database()
        settings.SECRET_KEY_FALLBACKS = [FORMER]
        claim_database()

    def test_a_database_without_it_belongs_to_the_key_of_its_secrets(
        self, sealed: KubernetesSettings, settings: Any
    ) -> None:
        settings.SECRET_KEY_FALLBACKS = []
        with pytest.raises(Conflict, match="OSMO_SECRET_KEY is not the key"):
            claim_database()
        assert not SecretKeyCheck.objects.exists()
        settings.SECRET_KEY_FALLBACKS = [FORMER]
        claim_database()
        assert SecretKeyCheck.objects.exists()

    def test_the_rotation_takes_it_along(self, claimed: None, settings: Any) -> None:
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = PRESENT, [FORMER]
        assert list_sealed_with_former_keys() == ["secret key check 1"]
        assert seal_again(actor=SYSTEM).sealed == 1
        settings.SECRET_KEY_FALLBACKS = []
        claim_database()
        settings.SECRET_KEY = FORMER
        with pytest.raises(Conflict):
            claim_database()

    def test_a_lost_key_is_replaced_and_what_is_lost_is_named(self, sealed: KubernetesSettings, settings: Any) -> None:
        settings.SECRET_KEY_FALLBACKS = []
        assert adopt_present_key(actor=SYSTEM) == [f"kubernetes settings {sealed.pk}"]
        claim_database()

    def test_a_user_may_not_adopt_a_key(self, db: None) -> None:
        with pytest.raises(Forbidden):
            adopt_present_key(actor=Actor("eve", frozenset({"osmo-user"})))

    def test_the_marks_of_keys_tell_them_apart(self, settings: Any) -> None:
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = PRESENT, [FORMER]
        present, former = key_marks()
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = FORMER, []
        assert key_marks() == [former] != [present]
        assert find_reading_key(seal("x")) == former


class TestDataDirectory:
    """The key of an installation that `osmo-admin up` runs."""

    @pytest.fixture
    def data(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataDirectory:
        monkeypatch.delenv("OSMO_SECRET_KEY", raising=False)
        data = DataDirectory.open(tmp_path / "data")
        data.prepare()
        return data

    def test_a_new_key_keeps_the_former_one(self, data: DataDirectory) -> None:
        former = keys.load_secret_key(data)
        done = CliRunner().invoke(app, ["key", "new", "--data-dir", str(data.root)])
        assert done.exit_code == 0, done.output
        assert "Restart OSMO Admin, then run: osmo-admin key seal" in done.output
        assert keys.load_secret_key(data) not in (former, "")
        assert keys.load_former_keys(data) == [former]
        assert former not in done.output
        assert data.secrets.stat().st_mode & 0o777 == 0o600
        assert keys.forget_former_keys(data) == 1
        assert keys.load_former_keys(data) == []

    def test_a_directory_without_a_key_is_refused(self, data: DataDirectory) -> None:
        done = CliRunner().invoke(app, ["key", "new", "--data-dir", str(data.root)])
        assert done.exit_code == 1
        assert "has no secret key" in str(done.output)

    def test_without_former_keys_there_is_nothing_to_forget(self, data: DataDirectory) -> None:
        keys.load_secret_key(data)
        done = CliRunner().invoke(app, ["key", "forget", "--data-dir", str(data.root)])
        assert done.exit_code == 1
        assert "has no former keys" in str(done.output)

    def test_a_key_from_outside_is_printed_and_not_stored(
        self, data: DataDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OSMO_SECRET_KEY", "set-from-outside")
        done = CliRunner().invoke(app, ["key", "new", "--data-dir", str(data.root)])
        assert done.exit_code == 0
        assert len(done.stdout.splitlines()[0]) == 64
        assert not data.secrets.exists()
