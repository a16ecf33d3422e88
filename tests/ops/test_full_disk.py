"""A full disk: what `osmo-admin up` writes there are notes, and nothing is stopped for want of them."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from osmo_admin.ops.files import disk_space, log_files, orphans, restarts
from osmo_admin.ops.programs.services import Service
from osmo_admin.ops.stores import postgres
from osmo_admin.ops.supervisor import Supervisor, SupervisorOptions
from osmo_admin.processes.operator_errors import error_message
from tests.support.up import UpProcess, run_osmo_admin

NO_ROOM = OSError(errno.ENOSPC, "No space left on device")


def fail(*_: Any, **__: Any) -> None:
    raise NO_ROOM


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def supervisor(tmp_path: Path, said: list[str]) -> Supervisor:
    made = Supervisor(SupervisorOptions(data_dir=tmp_path / "data"), said.append)
    made.data.prepare()
    return made


def test_a_note_that_cannot_be_written_is_one_warning(
    supervisor: Supervisor, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "write_private_file", fail)
    monkeypatch.setattr(restarts, "write_private_file", fail)
    service = Service("web", fail)
    service.note_death(time.monotonic(), "web was killed")
    supervisor.services.append(service)
    for _ in range(3):
        supervisor._record_children()
        supervisor._note_restarts()
    assert said == [
        "Warning: children.json: No space left on device.",
        "Warning: restarts.json: No space left on device.",
    ]
    monkeypatch.undo()
    supervisor._watch_disk()
    supervisor._note_restarts()
    assert supervisor.data.children.exists(), "the note is written when there is room"
    assert restarts.read_restarts(supervisor.data.root)["web"]["keeps_dying"] is False


def test_what_waits_is_started_when_there_is_room_again(
    supervisor: Supervisor, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service("postgres", fail)
    for second in range(7):
        service.note_death(time.monotonic() + second, "PostgreSQL ended")
    supervisor.database = service
    monkeypatch.setattr(disk_space, "LEAST_BYTES", 2**62)
    supervisor._watch_disk()
    supervisor._keep_running(service)
    assert service.restart_at is not None and service.restart_at > time.monotonic() + 30
    monkeypatch.undo()
    supervisor._watch_disk()
    assert service.restart_at <= time.monotonic()
    assert said[0].startswith("The disk of the data directory is full: ")
    assert said[1] == "The disk has room again."


def test_logs_are_cut_on_a_full_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "web.log"
    log.write_text("x" * 100)
    monkeypatch.setattr(log_files.shutil, "copyfile", fail)
    log_files.trim_log(log, limit=50)
    assert log.read_text() == ""
    assert not (tmp_path / "web.log.1").exists()


def test_a_server_starts_again_without_writing_its_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres.write_authentication(tmp_path, None)
    monkeypatch.setattr(postgres.tempfile, "mkstemp", fail)
    postgres.write_authentication(tmp_path, None)
    (tmp_path / "pg_hba.conf").write_text("other")
    with pytest.raises(OSError, match="No space left"):
        postgres.write_authentication(tmp_path, None)


def test_a_command_on_a_full_disk_says_so() -> None:
    message = error_message(OSError(errno.ENOSPC, "No space left on device", "/data/x"))
    assert message == "There is no room left on the disk of /data/x. Make room."


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 300 MB in memory, which the user of the database can reach. Only root may mount one."""
    disk = Path(tempfile.mkdtemp(prefix="osmo-disk-", dir="/tmp"))
    command = ["mount", "-t", "tmpfs", "-o", "size=300m,mode=755", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(command, check=False).returncode:
        disk.rmdir()
        pytest.skip("not run: needs the right to mount a file system")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)
    disk.rmdir()


def ready(installation: UpProcess) -> httpx.Response | None:
    try:
        return installation.get("/ready")
    except httpx.HTTPError:
        return None


def wait_for(what: str, condition: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.5)


@pytest.mark.fault
@pytest.mark.nightly
def test_an_installation_outlives_a_full_disk(small_disk: Path) -> None:
    installation = UpProcess(small_disk / "data").wait_ready()
    token = run_osmo_admin("token", "create", "admin", "t", "--data-dir", installation.data_dir).stdout.strip()
    login = httpx.post(f"{installation.base_url}/api/auth/jwt/access_token", json={"token": token}, timeout=30)
    client = httpx.Client(
        base_url=installation.base_url, headers={"Authorization": f"Bearer {login.json()['token']}"}, timeout=30
    )
    body = {"configs": {"backend": "simulated", "resources": {"gpu": {"guarantee": 1, "maximum": -1, "weight": 1}}}}
    try:
        subprocess.run(["dd", "if=/dev/zero", f"of={small_disk / 'ballast'}", "bs=1M"], check=False)
        end = time.monotonic() + 60
        named = False
        while time.monotonic() < end:
            assert installation.process.poll() is None, installation.output_text()
            answer = ready(installation)
            if answer is not None:
                named |= "is full" in answer.json()["checks"]["disk"]["message"]
            with suppress(httpx.HTTPError):
                client.put("/api/configs/pool/full", json=body)
            time.sleep(1)
        assert named
        assert "The disk of the data directory is full" in installation.output_text()
        status = run_osmo_admin("status", "--data-dir", installation.data_dir)
        assert "The disk of the data directory is full" in status.stdout
        (small_disk / "ballast").unlink()
        wait_for("everything serves again", lambda: (a := ready(installation)) is not None and a.status_code == 200, 90)
        client.put("/api/configs/pool/after", json=body).raise_for_status()
        assert run_osmo_admin("verify", "--data-dir", installation.data_dir).returncode == 0
    finally:
        client.close()
        assert installation.stop() == 0
