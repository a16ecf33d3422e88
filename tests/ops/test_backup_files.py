"""The files of a backup: what is refused before anything is changed, and the encryption."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from osmo_admin.backups import files
from osmo_admin.backups.files import CountingFile, Manifest
from osmo_admin.ops.programs.errors import OperationError
from osmo_admin.ops.stores.postgres_clients import find_client, split_password

CONTENT = b"a dump" * 100_000
MANIFEST = Manifest(
    made_at="2026-11-23T03:00:00+00:00", osmo_admin="0.1.0", postgresql=16, pg_dump=16, file="database.dump", size=0,
    sha256="", migrations=["pools.0001_initial"], rows={"pools_pool": 1}, key_mark="",
)  # fmt: skip


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """The folder of a complete backup."""
    with CountingFile(tmp_path / "database.dump") as target:
        files.copy_encrypted(io.BytesIO(CONTENT), target, [])
    files.write_manifest(tmp_path, replace(MANIFEST, size=target.size, sha256=target.sha256))
    return tmp_path


def test_a_complete_backup_is_read_as_it_was_written(backup: Path) -> None:
    manifest = files.read_manifest(backup)
    assert manifest.rows == {"pools_pool": 1}
    assert not manifest.is_encrypted
    assert files.check_dump(backup, manifest).read_bytes() == CONTENT
    assert [path.stat().st_mode & 0o777 for path in backup.iterdir()] == [0o600, 0o600]


@pytest.mark.parametrize("damage", [b"", CONTENT[:-1], CONTENT[:-1] + b"x", CONTENT + b"x"])
def test_a_damaged_dump_is_refused(backup: Path, damage: bytes) -> None:
    (backup / "database.dump").write_bytes(damage)
    with pytest.raises(OperationError, match="is damaged"):
        files.check_dump(backup, files.read_manifest(backup))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (None, "is not a backup: it has no manifest.json"),
        ({"format": 2}, "has format 2; this version of OSMO Admin reads formats up to 1"),
        ({"file": "../../etc/passwd"}, "names the file '../../etc/passwd'"),
        ({"unknown": 1}, "is not the manifest of a backup"),
        ({"rows": []}, "is not the manifest of a backup"),
    ],
)
def test_another_folder_is_refused_with_a_sentence(backup: Path, change: dict[str, object] | None, says: str) -> None:
    path = backup / "manifest.json"
    if change is None:
        path.unlink()
    else:
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(OperationError, match=says.replace("[", r"\[")):
        files.read_manifest(backup)


def test_text_that_is_not_json_is_refused(backup: Path) -> None:
    (backup / "manifest.json").write_text("{")
    with pytest.raises(OperationError, match="cannot be read"):
        files.read_manifest(backup)


def test_only_an_identity_of_a_recipient_opens_an_encrypted_dump(tmp_path: Path) -> None:
    recipients = files.read_recipients([files.new_identity(tmp_path / "right"), files.new_identity(tmp_path / "other")])
    files.new_identity(tmp_path / "wrong")
    with CountingFile(tmp_path / "database.dump.age") as target:
        files.copy_encrypted(io.BytesIO(CONTENT), target, recipients)
    assert CONTENT[:60] not in (tmp_path / "database.dump.age").read_bytes()
    for name in ("right", "other"):
        opened = io.BytesIO()
        with (tmp_path / "database.dump.age").open("rb") as source:
            files.copy_decrypted(source, opened, files.read_identities(tmp_path / name))
        assert opened.getvalue() == CONTENT
    with (
        (tmp_path / "database.dump.age").open("rb") as source,
        pytest.raises(OperationError, match="cannot be decrypted"),
    ):
        files.copy_decrypted(source, io.BytesIO(), files.read_identities(tmp_path / "wrong"))


def test_a_dump_whose_end_is_cut_off_is_not_taken_for_whole(tmp_path: Path) -> None:
    recipients = files.read_recipients([files.new_identity(tmp_path / "key")])
    with CountingFile(tmp_path / "cut") as target:
        files.copy_encrypted(io.BytesIO(CONTENT), target, recipients)
    short = io.BytesIO((tmp_path / "cut").read_bytes()[:-100])
    with pytest.raises((OperationError, OSError)):
        files.copy_decrypted(short, io.BytesIO(), files.read_identities(tmp_path / "key"))


def test_a_secret_key_is_never_overwritten(tmp_path: Path) -> None:
    files.new_identity(tmp_path / "key")
    with pytest.raises(OperationError, match="exists already"):
        files.new_identity(tmp_path / "key")


@pytest.mark.parametrize("text", ["", "age1", "AGE-SECRET-KEY-1", "ssh-ed25519 AAAA"])
def test_a_wrong_recipient_is_refused(text: str) -> None:
    with pytest.raises(OperationError, match="A public key of age begins with age1"):
        files.read_recipients([text])


@pytest.mark.parametrize("text", ["", "# only a note\n", "age1xyz\n"])
def test_a_wrong_identity_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(OperationError, match="identity file"):
        files.read_identities(tmp_path / "key")


def test_encrypted_secrets_need_the_identity(tmp_path: Path) -> None:
    public = files.new_identity(tmp_path / "key")
    content = files.encrypt_bytes(b'{"OSMO_SECRET_KEY": "k"}', files.read_recipients([public]))
    files.write_new_file(tmp_path / "secrets", content)
    with pytest.raises(OperationError, match="is encrypted. Name the secret key"):
        files.read_secrets(tmp_path / "secrets", [])
    assert files.read_secrets(tmp_path / "secrets", files.read_identities(tmp_path / "key")) == {"OSMO_SECRET_KEY": "k"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"OSMO_SECRET_KEY": 1}'])
def test_another_file_in_place_of_the_secrets_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "secrets").write_text(text)
    with pytest.raises(OperationError, match="secrets"):
        files.read_secrets(tmp_path / "secrets", [])


def test_no_command_line_shows_the_password() -> None:
    address, environment = split_password("postgresql://osmo:s%40cret@db.example:5433/osmo?sslmode=verify-full")
    assert address == "postgresql://osmo@db.example:5433/osmo?sslmode=verify-full"
    assert environment["PGPASSWORD"] == "s@cret"
    assert split_password("postgresql://osmo@/osmo?host=/run")[0] == "postgresql://osmo@/osmo?host=/run"


def test_a_missing_client_is_named_with_its_package() -> None:
    with pytest.raises(OperationError, match="apt-get install postgresql-client-99"):
        find_client("pg_dump", oldest=99, preferred=99)
