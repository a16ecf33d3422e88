"""The files by which a background process shows that it lives, and what `osmo-admin probe` says about them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from queue import Queue
from threading import Event
from types import SimpleNamespace

import pytest
from celery.worker import state
from django.db import connection
from typer.testing import CliRunner

from osmo_admin import celery
from osmo_admin.cli.server import app
from osmo_admin.monitoring import heartbeat, liveness
from osmo_admin.monitoring.liveness import Liveness
from osmo_admin.ops.files import life_files
from osmo_admin.ops.files.data_directory import DataDirectory
from osmo_admin.ops.files.life_files import find_lives, show_life
from osmo_admin.ops.programs.errors import OperationError
from osmo_admin.ops.programs.processes import process_start_time
from tests.support.services import Services


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data directory of the process and of the command; not made by `osmo-admin up`."""
    monkeypatch.setenv("OSMO_ADMIN_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(life_files.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path / "home"


def probe(*arguments: str) -> tuple[int, str]:
    """Exit code and output of the command."""
    answer = CliRunner().invoke(app, ["probe", *arguments])
    return answer.exit_code, answer.output


def test_a_process_without_a_data_directory_shows_its_life_in_a_private_folder(home: Path) -> None:
    show_life("worker")
    assert not home.exists(), "a folder there would keep `osmo-admin up` from using it"
    folder = next(home.parent.glob("osmo-admin-alive-*"))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [life.pid for life in find_lives("worker")] == [os.getpid()]
    assert find_lives("beat") == []


def test_under_up_it_is_in_the_data_directory(home: Path) -> None:
    data = DataDirectory.open(None)
    data.prepare()
    show_life("beat")
    assert [file.name for file in data.alive.iterdir()] == [f"beat-{os.getpid()}"]
    assert probe("beat", "--data-dir", str(home))[0] == 0
    data.remove()
    assert not home.exists()


def test_a_foreign_folder_is_not_believed(home: Path) -> None:
    show_life("worker")
    folder = next(home.parent.glob("osmo-admin-alive-*"))
    other = home.parent / "other"
    folder.rename(other)
    folder.symlink_to(other)
    with pytest.raises(OperationError, match="belongs to another user"):
        show_life("worker")
    code, output = probe("worker")
    assert (code, "Traceback" in output) == (1, False)


def test_files_of_dead_processes_and_of_another_process_with_the_same_number_are_removed() -> None:
    show_life("worker")
    own = life_files._folder(None) / f"worker-{os.getpid()}"
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (own.parent / f"worker-{dead.pid}").write_text("12345")
    own.write_text("12345")
    assert find_lives("worker") == []
    assert list(own.parent.iterdir()) == []
    show_life("worker")
    assert own.read_text() == process_start_time(os.getpid())


def test_the_command_names_the_process_and_the_remedy() -> None:
    code, output = probe("clusters")
    assert (code, output.startswith("No clusters runs here.")) == (1, True)
    show_life("clusters")
    assert probe("clusters") == (0, f"clusters (process {os.getpid()}) lives: last sign of life 0 s ago.\n")
    file = life_files._folder(None) / f"clusters-{os.getpid()}"
    os.utime(file, (time.time() - 61, time.time() - 61))
    code, output = probe("clusters")
    assert code == 1
    assert output.startswith(f"clusters (process {os.getpid()}) hangs: no sign of life for 61 s. Restart it;")
    show_life("clusters")
    assert probe("clusters")[0] == 0
    assert probe("web")[0] == 2


def test_a_round_that_does_not_end_is_a_hang_only_while_the_servers_answer(
    db: None, running_services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeat.redis_client.cache_clear()
    monkeypatch.setattr(connection, "close", lambda: None)  # the transaction of the test
    now = [1000.0]
    monkeypatch.setattr(liveness.time, "monotonic", lambda: now[0])
    process = Liveness("worker")
    process.note_round()
    assert process.is_alive()
    now[0] += liveness.STUCK_SECONDS + 1
    assert not process.is_alive()
    with monkeypatch.context() as lost:
        lost.setattr(connection, "cursor", lambda: connection.Database.connect("host=/nowhere"))
        lost.setattr(liveness, "DatabaseError", connection.Database.Error)
        assert process.is_alive(), "it may wait for the database"
    assert process.is_alive(), "and has time to notice that it answers again"
    now[0] += liveness.STUCK_SECONDS + 1
    assert not process.is_alive()


def test_a_worker_hangs_if_all_of_its_processes_do(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Liveness] = []

    def start(self: Liveness) -> None:
        started.append(self)

    monkeypatch.setattr(Liveness, "start", start)
    monkeypatch.setattr(liveness, "_servers_answer", lambda: True)
    celery._show_life_of_worker(sender=SimpleNamespace(concurrency=2))
    process = started[0]
    process.note_round()
    old = time.time() - celery.LONGEST_TASK_SECONDS - 1
    tasks = [SimpleNamespace(time_start=old), SimpleNamespace(time_start=None), SimpleNamespace(time_start=old)]
    monkeypatch.setattr(state, "active_requests", tasks[:1])
    assert process.is_alive()
    monkeypatch.setattr(state, "active_requests", tasks[:2])
    assert process.is_alive(), "one has only begun"
    monkeypatch.setattr(state, "active_requests", tasks[::2])
    assert not process.is_alive()


def test_a_check_that_fails_costs_one_sign_of_life_and_not_all(monkeypatch: pytest.MonkeyPatch) -> None:
    works, pauses, shown = iter([False, True]), iter([0.0]), list[str]()

    def is_working() -> bool:
        if not next(works):
            raise RuntimeError("unforeseen")
        return True

    def pause(seconds: float) -> None:
        next(pauses)  # StopIteration ends the second round

    monkeypatch.setattr(liveness, "show_life", shown.append)
    process = Liveness("worker", is_working)
    process.note_round()
    monkeypatch.setattr(liveness.time, "sleep", pause)
    with pytest.raises(StopIteration):
        process._run()
    assert shown == ["worker"]


def test_a_web_process_registers_again_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is not registered is not compared with the others: nobody would notice another secret key."""
    tries: Queue[str] = Queue()

    def register(process: str) -> None:
        tries.put(process)
        if tries.qsize() == 2:
            Event().wait()  # for ever, in a daemon thread
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr(heartbeat, "WEB_RENEW_SECONDS", 0.01)
    monkeypatch.setattr(heartbeat, "_register", register)
    heartbeat.keep_registering("web")
    deadline = time.monotonic() + 10
    while tries.qsize() < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert list(tries.queue) == ["web", "web"]
