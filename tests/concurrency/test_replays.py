"""A replay whose process is frozen keeps neither the place of replays nor the turn of long work."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from django.db import connection
from django.utils import timezone

from pools.models import User
from scheduling.history.own import replays
from scheduling.locking import LongWorkRuns, hold_long_work_turn, try_replay
from scheduling.models import HistoryReplay
from scheduling.models.history.history_replay import ReplayStatus
from scheduling.services import notifications
from tests.support import world
from tests.support.children import popen_of
from tests.support.kube_server import wait_for
from tests.support.preloading import start_program
from tests.support.services import Services

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]


def _request(username: str) -> UUID:
    world.make_user(username, "osmo-admin")
    at = timezone.now().replace(tzinfo=None).isoformat()
    row = HistoryReplay.objects.create(
        user=User.objects.get(username=username),
        backend_id=world.make_backend(name=f"sim-{username}").pk,
        question={"backend": f"sim-{username}", "since": at, "until": at, "changes": []},
        reads_all=True,
        pools=[],
    )
    return row.pk


def _status(pk: UUID) -> str:
    return HistoryReplay.objects.get(pk=pk).status


def test_a_frozen_process_gives_its_place_to_others(
    template: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "enqueue_history_replay", lambda _: None)
    monkeypatch.setattr(replays, "replay_own_history", lambda *_: {})
    first, second = _request("first"), _request("second")
    address, said, go = template.database_url(connection.settings_dict["NAME"]), tmp_path / "said", tmp_path / "go"
    process = start_program("tests.concurrency.replay_process", str(first), str(go), address=address, output=said)
    with ExitStack() as at_end:
        at_end.callback(process.kill_group)
        wait_for(lambda: said.read_text() == "working\n", description="it works")
        process.popen.send_signal(signal.SIGSTOP)
        replays.resume_replays()
        replays.run_replay(second)
        assert (_status(first), _status(second)) == (ReplayStatus.RUNNING, ReplayStatus.WAITING), "it spoke just now"
        with pytest.raises(LongWorkRuns), hold_long_work_turn():
            pass

        monkeypatch.setattr(replays, "LOST_AFTER", timedelta(0))
        replays.resume_replays()
        assert _status(first) == ReplayStatus.WAITING
        with hold_long_work_turn():
            """Other long work runs again."""
        for pk in (second, first):
            replays.run_replay(pk)
            assert _status(pk) == ReplayStatus.COMPLETED

        go.touch()
        process.popen.send_signal(signal.SIGCONT)
        popen_of(process).wait(60)
        assert said.read_text() == "working\nlost\n"
        assert HistoryReplay.objects.get(pk=first).answer == {}, "it wakes up and has nothing to say"


def test_a_process_whose_statement_runs_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "LOST_AFTER", timedelta(0))
    worked: list[bool] = []

    def work() -> None:
        with try_replay() as is_free, connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(1)")
            worked.append(is_free)
        connection.close()

    worker = threading.Thread(target=work)
    worker.start()
    is_running = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = 'SELECT pg_sleep(1)'"
    with connection.cursor() as cursor:
        while worker.is_alive() and cursor.execute(is_running).fetchone() == (0,):
            pass
    replays.resume_replays()
    worker.join()
    assert worked == [True]
