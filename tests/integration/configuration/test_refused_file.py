"""A mounted file that cannot be applied leaves an entry in the audit trail, once for each content."""

from __future__ import annotations

import pytest

from osmo_admin.cli.server_commands.configuration import apply_mounted_file
from pools.domain.errors import Busy
from pools.models import AuditEntry, Pool
from scheduling.configuration.follower import FileRefused
from scheduling.services import configuration
from tests.integration.configuration.test_mounted_file import OSMO_FILE
from tests.support.world import make_user, sign_in

pytestmark = pytest.mark.django_db

BAD = OSMO_FILE.replace(b"guarantee: 8", b"guarantee: -3").replace(b"max_retry_per_task: 2", b"max_retry_per_task: 900")


def refuse(content: bytes) -> None:
    with pytest.raises(FileRefused):
        apply_mounted_file("config.yaml", content)


def entries() -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(object="config_file/config.yaml").order_by("pk"))


def test_the_entry_names_file_reason_and_numbers() -> None:
    apply_mounted_file("config.yaml", OSMO_FILE)
    assert entries() == []
    refuse(BAD)
    (entry,) = entries()
    assert (entry.action, entry.actor, entry.before) == ("config_file.refused", "system", None)
    assert entry.after is not None
    assert (entry.after["path"], entry.after["faults"], entry.after["source"]) == ("config.yaml", 2, "config-file")
    assert "config.yaml:" in entry.after["message"]
    assert Pool.objects.get(name="team").guarantee == 8


def test_one_entry_for_each_content() -> None:
    apply_mounted_file("config.yaml", OSMO_FILE)
    for content in (BAD, BAD, b"[", b"["):
        refuse(content)
    assert [entry.action for entry in entries()] == ["config_file.refused"] * 2
    apply_mounted_file("config.yaml", OSMO_FILE)
    apply_mounted_file("config.yaml", OSMO_FILE)
    assert [entry.action for entry in entries()[2:]] == ["config_file.accepted"]
    refuse(BAD)  # refused once more, after it was put right
    assert len(entries()) == 4


def test_a_refusal_that_passes_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(**_: object) -> None:
        raise Busy("later", retry_after=1)

    monkeypatch.setattr(configuration, "apply_configuration", busy)
    refuse(OSMO_FILE)
    assert entries() == []


def test_a_long_reason_is_cut_and_all_faults_are_counted() -> None:
    pools = "\n".join(f"  pool-{number}: {{backend: prod, colour: red}}" for number in range(300))
    refuse(f"pools:\n{pools}".encode())
    (entry,) = entries()
    assert entry.after is not None and len(entry.after["message"]) == 4000
    assert entry.after["faults"] >= 300


def test_the_page_and_the_api_show_it_to_those_who_see_everything() -> None:
    refuse(BAD)
    make_user("root", "osmo-admin")
    make_user("eve")
    root, stranger = sign_in("root"), sign_in("eve")
    sentence = "could not apply config.yaml, so the former configuration stays: 2 faults"
    assert sentence in root.get("/activity/audit").content.decode()
    assert sentence not in stranger.get("/activity/audit").content.decode()
    shown = root.get("/api/audit").json()
    assert sentence in str(shown) and sentence not in str(stranger.get("/api/audit").json())
