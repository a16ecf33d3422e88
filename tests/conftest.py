"""Fixtures for every test. Servers start when the first test asks for them; a run of pure tests starts none.

`db`              a transaction that is rolled back (pytest-django)
`module_data`     a transaction around a module, for data that is made once for all its tests
`transactional_db`, `live_server`   committed data, cleaned past the ledger's protecting triggers
`ledger`          committed data with the defaults seeded (backend `simulated`)
`stack`           a running installation: web, worker, beat on a database of their own
`tab`             a Chromium page on that installation
`up`              starts `osmo-admin up` on a fresh data directory, any number of times
`used_data_dir`   the data directory of `up` is one on which an installation ran before, which starts faster
`kube`            a Kubernetes API server with KAI's CRDs, and a namespace of this test's own in it (mark `k8s`)
`kube_server`, `newer_kube_server`   such a server, shared; the newer one has KAI's newer PodGroup
`own_kube_server` one that the test may kill, without CRDs
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from tests.support import middleware, nightly_parts, optional_tools, services
from tests.support.services import Services
from tests.support.stack import LOCK_TIMEOUT_MS, SECRET_KEY, Stack
from tests.support.up import UpProcess

if TYPE_CHECKING:
    from tests.support.kube_server import KubeNamespace, KubeServer

# Otherwise each of a few hundred processes compiles the project anew, half a second each.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None) and "-B" not in sys.orig_argv:
    sys.dont_write_bytecode = False

GARBAGE_THRESHOLDS = (2000, 10, 100)
"""The whole heap is visited seldom: it takes a second here, and requests leave little garbage of that age."""

hypothesis.settings.register_profile(
    "default", max_examples=30, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("nightly", parent=hypothesis.settings.get_profile("default"), max_examples=1000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="run the tests marked nightly, with larger samples")
    parser.addoption("--part", choices=nightly_parts.PARTS, help="run only the nightly tests of this part")


def pytest_configure(config: pytest.Config) -> None:
    services.open_session()
    hypothesis.settings.load_profile("nightly" if config.getoption("--nightly") else "default")
    _point_django_at(_services(config))
    middleware.build_middleware_once()
    _use_quick_hashes()
    _build_commands_once()
    _load_pages()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is loaded here stays until the end, so the garbage collector need not visit it again and again."""
    gc.disable()
    yield
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    services.close_session()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if dropped := nightly_parts.select(items, config.getoption("--part")):
        config.hook.pytest_deselected(items=dropped)
    optional_tools.mark_missing(items, nightly=bool(config.getoption("--nightly")))
    items.sort(key=_place_in_order)


def _place_in_order(item: pytest.Item) -> int:
    """Tests of an installation that runs until the end of the session come late: from its start on, its processes take
    a fifth of the processor from all other tests. Where Playwright has a loop, `asyncio.run` is refused for good: tests
    with a browser are the last of a process."""
    fixtures = set(getattr(item, "fixturenames", ()))
    return 2 if "chromium" in fixtures else 1 if fixtures & {"stack", "worker_installation"} else 0


def pytest_runtest_setup(item: pytest.Item) -> None:
    optional_tools.fail_missing(item)
    marker = item.get_closest_marker("django_db")
    if "transactional_db" in getattr(item, "fixturenames", ()) or (marker and marker.kwargs.get("transaction")):
        _end_module_data()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    optional_tools.report_missing(terminalreporter)


def _services(config: pytest.Config) -> Services:
    worker = getattr(config, "workerinput", {}).get("workerid")
    return services.current_services(worker)


def _use_quick_hashes() -> None:
    """Hashes of passwords that this process stores are quick to make, as Django's documentation advises for tests; the
    processes of an installation keep those of production."""
    from osmo_admin.access.password_hashing import OneAtATimeHasher

    OneAtATimeHasher.iterations = 1000


def _build_commands_once() -> None:
    """Typer's runner builds all commands of an application for each call: 60 ms of `osmo`, where the rest takes few."""
    import typer.testing

    vars(typer.testing)["_get_command"] = functools.cache(typer.main.get_command)


def _load_pages() -> None:
    """The addresses load them, in a process that has addresses. No test depends on one before it that asked for one."""
    from django.contrib import admin

    admin.autodiscover()


def _point_django_at(here: Services) -> None:
    """Addresses are known before the servers run, so settings are read once. Logs are configured by then; a command
    that a test runs in this process would direct them to an output that closes with the command, and each later record
    would fail, with a printed stack."""
    from django.conf import settings

    import osmo_admin.settings as ours
    from osmo_admin.celery import app

    ours.ENV = settings.OSMO = dataclasses.replace(settings.OSMO, lock_timeout_ms=LOCK_TIMEOUT_MS)
    settings.LOGGING_CONFIG = None
    settings.SECRET_KEY = SECRET_KEY
    settings.DATABASES["default"].update(ours.database_settings(here.database_url(here.database_name("test"))))
    settings.DATABASES["default"]["CONN_MAX_AGE"] = 0
    settings.REDIS_URL = settings.CACHES["default"]["LOCATION"] = here.redis_url()
    broker = here.redis_url().replace("unix://", "redis+socket://").replace("?db=", "?virtual_host=")
    settings.CELERY_BROKER_URL = broker
    app.conf.broker_url = broker


@pytest.fixture(scope="session")
def running_services(request: pytest.FixtureRequest) -> Services:
    """PostgreSQL and Valkey of this session, running."""
    here = _services(request.config)
    here.ensure()
    return here


@pytest.fixture(scope="session")
def template(running_services: Services, django_test_environment: None, django_db_blocker: Any) -> Services:
    """The migrated template database exists."""
    from tests.support import database

    with django_db_blocker.unblock():
        database.ensure_template(running_services)
    return running_services


@pytest.fixture(scope="session")
def django_db_setup(template: Services, django_db_blocker: Any) -> Iterator[None]:
    """In place of pytest-django's: a copy of the template, and a clean-up that the ledger's triggers allow. The session
    stays open over all tests: a new one reads the catalogue and compiles the triggers anew."""
    from django.db import connection
    from django.test import TransactionTestCase

    from tests.support import database

    name = template.database_name("test")
    with django_db_blocker.unblock():
        database.copy_template(template, name)
    patch, url = pytest.MonkeyPatch(), template.database_url(name)
    patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _: database.restore_pristine(url))
    patch.setattr(TransactionTestCase, "_should_reload_connections", lambda _: False)
    yield
    patch.undo()
    database.end_resets()
    with django_db_blocker.unblock():
        connection.close()
        database.drop_database(template, name)


_undo_module_data: list[Callable[[], None]] = []


def _end_module_data() -> None:
    """Undo the data of the module; tests with committed data follow all others of their module."""
    while _undo_module_data:
        _undo_module_data.pop()()


@pytest.fixture(scope="module")
def module_data(django_db_setup: None, django_db_blocker: Any) -> Iterator[Callable[[], Any]]:
    """Opens a transaction around the tests of a module, whose own transactions are savepoints of it. For a fixture of
    this scope that makes, inside `with module_data():`, what all tests of a module begin with; not with `ledger`. The
    `now()` of the database is the time at which the module began. Deferred triggers look at this data once, at the end
    of the block: those that wait would run in each test, and its rollback would make them wait again."""
    from django.db import connection, transaction

    with django_db_blocker.unblock():
        block = transaction.atomic()
        block.__enter__()

    def undo() -> None:
        with django_db_blocker.unblock():
            transaction.set_rollback(True)
            block.__exit__(None, None, None)

    @contextmanager
    def make() -> Iterator[None]:
        with django_db_blocker.unblock():
            yield
            connection.check_constraints()

    _undo_module_data.append(undo)
    yield make
    _end_module_data()


@pytest.fixture
def ledger(transactional_db: None) -> None:
    """Committed data, seen by other threads and connections, with the default backend seeded."""
    from scheduling.services.seed import seed_defaults

    seed_defaults()


@pytest.fixture(scope="session")
def stack(template: Services, tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any) -> Iterator[Stack]:
    """A running installation shared by the tests of this pytest worker."""
    running = Stack(template, tmp_path_factory.mktemp("stack"), django_db_blocker, {})
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One browser process for this pytest worker. Playwright's loop runs in this thread from now on, and Django treats
    everything that follows as asynchronous code."""
    from tests.support.browser import launch_chromium

    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with launch_chromium() as browser:
        yield browser
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def new_tab(chromium: Any, stack: Stack, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes separate browser contexts, one for each user of a test; options are Playwright's."""
    from tests.support.browser import Tab

    tabs: list[Tab] = []

    def make(**options: Any) -> Tab:
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        tabs.append(Tab(context, stack.base_url, request.node.name))
        return tabs[-1]

    yield make
    faults = [fault for tab in tabs for fault in tab.faults]
    for tab in tabs:
        tab.context.close()
    assert not faults, faults


@pytest.fixture
def tab(new_tab: Callable[..., Any]) -> Any:
    """One browser tab; the test fails on a console error and on a request that leaves the host."""
    return new_tab()


@pytest.fixture
def no_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    """For servers that speak plain HTTP. Each HTTP client reads all authorities of the world, which takes 24 ms."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: context)


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data directory's path; short, and accessible to root's database user."""
    parent = Path(tempfile.mkdtemp(prefix="osmo-up-", dir="/tmp"))
    parent.chmod(0o755)
    yield parent / "data"
    shutil.rmtree(parent, ignore_errors=True)


@pytest.fixture
def used_data_dir(data_dir: Path, request: pytest.FixtureRequest) -> Path:
    """The data directory, as an installation left it that ran before: a start on it takes 4 s and not 15. The first
    test that asks keeps a copy for the others of this session."""
    here = _services(request.config)
    archive = here.folder / "data-dir.tar"
    with here.exclusive_lock("data-dir"):
        if archive.exists():
            subprocess.run(["tar", "-C", data_dir.parent, "-xpf", archive], check=True)
        else:
            assert UpProcess(data_dir).wait_ready().stop() == 0
            unfinished = archive.with_suffix(".part")
            subprocess.run(["tar", "-C", data_dir.parent, "-cf", unfinished, data_dir.name], check=True)
            unfinished.rename(archive)
    return data_dir


@pytest.fixture
def up(data_dir: Path) -> Iterator[Callable[..., UpProcess]]:
    """Starts `osmo-admin up` on this test's data directory; options as on the command line."""
    started: list[UpProcess] = []

    def start(*options: str, env: dict[str, str] | None = None) -> UpProcess:
        started.append(UpProcess(data_dir, *options, env=env))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.kill()


@pytest.fixture(scope="session")
def kube_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeServer]:
    """A Kubernetes API server with KAI's pinned CRDs, shared by the tests of this pytest worker."""
    from tests.support import kube_server as servers

    yield from servers.run_server(tmp_path_factory.mktemp("kube"), *servers.PINNED)


@pytest.fixture(scope="session")
def newer_kube_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeServer]:
    """The same with KAI's newer CRDs, whose PodGroup knows `minSubGroup`."""
    from tests.support import kube_server as servers

    yield from servers.run_server(tmp_path_factory.mktemp("kube-newer"), *servers.NEWER)


@pytest.fixture
def own_kube_server(tmp_path: Path) -> Iterator[KubeServer]:
    """A server of this test alone, which may kill it; no CRDs."""
    from tests.support import kube_server as servers

    yield from servers.run_server(tmp_path / "kube")


@pytest.fixture
def kube(kube_server: KubeServer) -> Iterator[KubeNamespace]:
    """A connection as admin and a fresh namespace."""
    from tests.support.kube_server import KubeNamespace, create_namespace

    cluster = kube_server.connect()
    yield KubeNamespace(cluster, create_namespace(cluster))
    cluster.close()
