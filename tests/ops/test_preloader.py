"""Services that begin with the whole program loaded."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from osmo_admin.ops.programs import preloader
from osmo_admin.ops.programs.errors import OperationError
from osmo_admin.ops.programs.preloader import Preloader
from osmo_admin.ops.programs.processes import ForkedProcess, read_tail, reap_adopted
from tests.support.services import ROOT
from tests.support.stack import SECRET_KEY

pytestmark = pytest.mark.skipif(not preloader.can_preload(), reason="an orphan goes to the supervisor on Linux only")


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def keep_orphans() -> Iterator[None]:
    """The process of the tests must not adopt the orphans of other tests."""
    yield
    ctypes.CDLL(None).prctl(36, 0)  # PR_SET_CHILD_SUBREAPER


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment with which the program can be loaded; nothing listens at the address of the database."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(tmp_path),
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none",
        "REDIS_URL": "redis://127.0.0.1:9/0",
        "OSMO_SECRET_KEY": SECRET_KEY,
        "DJANGO_SETTINGS_MODULE": "osmo_admin.settings",
    }


def test_a_service_is_a_child_of_the_supervisor_with_its_own_environment_and_log(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """And one of Celery repeats nothing that was done before the fork."""
    (tmp_path / "own_service.py").write_text(
        "import os, signal, sys\n"
        "loaded = 'osmo_admin.urls' in sys.modules and not {'prompt_toolkit', 'rich.console'} & set(sys.modules)\n"
        "print(sys.argv, os.environ['COLOUR'], 'LOST' in os.environ, loaded, __name__, os.getsid(0) == os.getpid(),"
        " flush=True)\n"
        "signal.pause() if sys.argv[1] == 'stay' else sys.exit(7)\n"
    )
    (tmp_path / "celery_service.py").write_text(
        "import logging, sys\n"
        "from unittest import mock\n"
        "from osmo_admin.celery import app\n"
        "handlers = list(logging.getLogger().handlers)\n"
        "with mock.patch('django.core.checks.run_checks') as checks:\n"
        "    app.loader.init_worker()\n"
        "print(app.finalized, checks.called, handlers == logging.getLogger().handlers, 'cffi.cparser' in sys.modules,"
        " flush=True)\n"
    )
    log, log_of_celery = tmp_path / "service.log", tmp_path / "celery.log"
    preloads = Preloader(log=tmp_path / "preloaded.log", env=environment | {"LOST": "1"})
    parent = preloads.start()
    command = [sys.executable, "-m", "own_service"]
    service = preloads.start_service("own", [*command, "stay"], log=log, env=environment | {"COLOUR": "green"})
    wait_for(lambda: read_tail(log))
    name = f"{tmp_path / 'own_service.py'}"
    assert read_tail(log) == f"['{name}', 'stay'] green False True __main__ True", read_tail(parent.log)
    assert Path(f"/proc/{service.pid}/cmdline").read_text().startswith("osmo-admin own")

    other = preloads.start_service("other", [*command, "end"], log=log, env=environment | {"COLOUR": "red"})
    celery = preloads.start_service(
        "celery", [sys.executable, "-m", "celery_service"], log=log_of_celery, env=environment
    )
    wait_for(lambda: None not in (other.exit_code(), celery.exit_code()))
    assert other.exit_code() == 7
    assert read_tail(log_of_celery) == "True False True True", read_tail(parent.log)

    os.kill(parent.pid, signal.SIGKILL)
    parent.popen.wait()
    assert service.exit_code() is None, "no service ends with the process that forked it"
    with pytest.raises(OperationError, match="The process that starts third"):
        preloads.start_service("third", command, log=log, env=environment)

    preloads.close()
    service.request_stop()
    assert service.popen.wait() == -signal.SIGTERM


def test_the_services_of_a_first_start_send_built_static_files(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("osmo_admin", "static"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pools", "scheduling", "templates"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)  # where `python -m` looks first
    (tmp_path / "own_service.py").write_text(
        "from django.conf import settings\n"
        "from django.templatetags.static import static\n"
        "print(settings.STATIC_ROOT, static('osmo/osmo.css'), flush=True)\n"
    )
    log = tmp_path / "service.log"
    preloads = Preloader(log=tmp_path / "preloaded.log", env=environment)
    parent = preloads.start()
    service = preloads.start_service("own", [sys.executable, "-m", "own_service"], log=log, env=environment)
    wait_for(lambda: service.exit_code() is not None)
    preloads.close()
    parent.popen.wait()
    build = next((tmp_path / ".static").iterdir(), None)
    assert build is not None, read_tail(parent.log)
    hashed = next(path.name for path in (build / "osmo").glob("osmo.*.css"))
    assert read_tail(log) == f"{build} /static/osmo/{hashed}", read_tail(parent.log)


class AllBut:
    """The other children of this process, which have their own tests."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def __contains__(self, pid: object) -> bool:
        return pid != self.pid


def test_an_adopted_process_leaves_no_zombie_and_an_own_one_keeps_its_exit_code() -> None:
    own, stranger = (os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", f"exit({n})"]) for n in (4, 3))
    for pid in (own, stranger):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    reap_adopted(AllBut(stranger))
    assert ForkedProcess(own).wait() == 4
    reap_adopted(AllBut(stranger))
    with pytest.raises(ChildProcessError):
        os.waitpid(stranger, 0)
