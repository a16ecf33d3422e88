"""A running installation for acceptance tests: web, worker, beat and the agents of clusters, on a database of its
own.

One per pytest worker; tests use fresh names (`stack.unique_name("team")`) instead of cleaning up.
"""

from __future__ import annotations

import itertools
import os
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
from django.conf import settings
from django.db import connections
from psycopg.rows import dict_row

from osmo_admin.ops.programs import process_commands
from osmo_admin.ops.programs.processes import ChildProcess, stop_children
from osmo_admin.web.static_build import build_static_files
from pools.domain.changes.tokens import CreateToken
from pools.domain.changes.users import CreateUser
from tests.support import database
from tests.support.preloading import start_service
from tests.support.services import ROOT, Services

SECRET_KEY = "only-for-tests-" + "k" * 50
ADMIN_PASSWORD = "only-for-tests-4711"
READY_SECONDS = 90.0
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For addresses of HTTP: to read the authorities of this machine takes 34 ms, for each client."""
LOCK_TIMEOUT_MS = 20_000
LOGIN_SECONDS = 60.0
"""How long a change waits for a lock in tests: longer than in production, so that a busy machine changes no outcome."""


def find_free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Stack:
    """The running installation. `base_url` is its address; `admin_client` is logged in as user `admin`."""

    def __init__(self, services: Services, folder: Path, blocker: Any, extra_env: Mapping[str, str]) -> None:
        self.services = services
        self.folder = folder
        self.database = services.database_name("stack")
        self.database_url = services.database_url(
            self.database
        )  # a superuser's, for tests; processes have a lesser role
        self.port = find_free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.children: dict[str, ChildProcess] = {}
        self._blocker = blocker
        self._numbers = itertools.count(1)
        self._session: Any = None
        self._clients: list[httpx.Client] = []
        self._admin: tuple[float, httpx.Client] | None = None
        self._tokens: dict[tuple[str, tuple[str, ...]], str] = {}
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OSMO_")},
            "DATABASE_URL": services.runtime_url(self.database),
            "REDIS_URL": services.redis_url(stack=True),
            "OSMO_SECRET_KEY": SECRET_KEY,
            "OSMO_PUBLIC_URL": self.base_url,
            "OSMO_SETTLE_INTERVAL": "3",  # each is work for the processor of other tests; changes are settled at once
            "OSMO_LOCK_TIMEOUT_MS": str(LOCK_TIMEOUT_MS),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            **extra_env,
        }

    # --- running ---
    def start(self) -> None:
        """Create the database, start the four processes, wait until `/ready` reports all of them as working."""
        self.create_database()
        self.start_processes()

    def create_database(self) -> None:
        """A copy of the migrated template with the defaults and user `admin`."""
        database.copy_template(self.services, self.database)
        with self.orm():
            from pools.domain.people.roles import SYSTEM
            from pools.services.people.users import create_user
            from scheduling.services.seed import seed_defaults

            seed_defaults()
            create_user(CreateUser(id="admin", roles=("osmo-admin",)), actor=SYSTEM, password=ADMIN_PASSWORD)

    def start_processes(self) -> None:
        """The four processes run and `/ready` reports all of them as working."""
        build_static_files(settings.STATIC_SOURCES, settings.STATIC_BUILDS)
        self.start_process(process_commands.WEB)
        self.start_process(process_commands.WORKER)
        self.start_process(process_commands.BEAT)
        self.start_process(process_commands.CLUSTERS)
        self.wait_ready()

    def start_process(self, name: str) -> ChildProcess:
        """Start (again) one of the four processes."""
        command = {
            process_commands.WEB: process_commands.web_command("127.0.0.1", self.port, workers=1),
            process_commands.WORKER: process_commands.worker_command(processes=1),
            process_commands.BEAT: process_commands.beat_command(),
            process_commands.CLUSTERS: process_commands.clusters_command(),
        }[name]
        self.children[name] = self.launch(name, command)
        return self.children[name]

    def launch(self, name: str, command: Sequence[str], *, log: str = "") -> ChildProcess:
        """Start a process of this installation with its environment."""
        return start_service(name, command, log=self.folder / f"{log or name}.log", env=self.env)

    def wait_ready(self) -> None:
        """Raises AssertionError with the ends of the logs if the installation does not become ready."""
        deadline = time.monotonic() + READY_SECONDS
        last = "no answer"
        while time.monotonic() < deadline:
            try:
                answer = httpx.get(f"{self.base_url}/ready", timeout=5, verify=NO_TLS)
                last = answer.text
                if answer.status_code == 200 and all(check["ok"] for check in answer.json()["checks"].values()):
                    return
            except httpx.HTTPError as problem:
                last = str(problem)
            if any(child.exit_code() is not None for child in self.children.values()):
                break
            time.sleep(0.1)
        logs = "\n".join(f"--- {child.name}\n{child.log_tail()}" for child in self.children.values())
        raise AssertionError(f"The installation is not ready: {last}\n{logs}")

    def stop(self) -> None:
        """Kill the processes, which would take seconds to stop in order, and drop the database."""
        for client in self._clients:
            client.close()
        self.close_session()
        stop_children(self.children.values(), grace=0)
        database.drop_database(self.services, self.database)

    # --- reading and preparing ---
    @contextmanager
    def orm(self) -> Iterator[None]:
        """Inside, Django's ORM in this process works on the installation's database, in a session that stays open: a
        new one reads the catalogue and compiles the triggers anew."""
        usual = connections["default"]
        if self._session is None:
            self._session = usual.copy()
            self._session.settings_dict.update(database.address_settings(self.database_url))
        if not self._session.is_usable():
            self._session.close()  # the server has ended it
        connections["default"] = self._session
        try:
            with self._blocker.unblock():
                yield
        finally:
            connections["default"] = usual

    def close_session(self) -> None:
        """Close the session of :meth:`orm`, which the next use opens again."""
        if self._session is not None:
            self._session.close()

    def query(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        """Rows from the installation's database."""
        with psycopg.connect(self.database_url, autocommit=True, row_factory=dict_row) as session:
            return session.execute(query, parameters or None).fetchall()  # type: ignore[call-overload]

    def unique_name(self, prefix: str = "pool") -> str:
        """A name that no other test of this installation uses; valid for pools and users."""
        return f"{prefix}{next(self._numbers)}x{self.services.number}"

    # --- users ---
    def access_token(self, username: str, *roles: str) -> str:
        """An access token for this user, made (with these roles) if new."""
        key = (username, roles)
        if key not in self._tokens:
            with self.orm():
                from pools.domain.people.roles import SYSTEM
                from pools.models import User
                from pools.services.people.access_tokens import create_token
                from pools.services.people.users import create_user

                user = User.objects.filter(username=username).first()
                if user is None:
                    user = create_user(CreateUser(id=username, roles=roles), actor=SYSTEM)
                token_name = f"test-{next(self._numbers)}"
                self._tokens[key] = create_token(CreateToken(owner=user, name=token_name), actor=SYSTEM)[1]
        return self._tokens[key]

    def client_for(self, username: str, *roles: str) -> httpx.Client:
        """An HTTP client logged in as this user with these roles, as the stock client logs in."""
        token = self.access_token(username, *roles)
        answer = httpx.post(
            f"{self.base_url}/api/auth/jwt/access_token", json={"token": token}, timeout=30, verify=NO_TLS
        )
        answer.raise_for_status()
        bearer = answer.json()["token"]
        return self.anonymous_client(headers={"Authorization": f"Bearer {bearer}"})

    def sign_in(self, username: str) -> tuple[str, str]:
        """A new session of this user, as the login form makes one: the name and value of its cookie. Without the hash
        of a password, which takes longer than a page."""
        with self.orm():
            from django.test import Client

            from pools.models import User

            browser = Client()
            user = User.objects.get(username=username)
            browser.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
            name = settings.SESSION_COOKIE_NAME
            return name, browser.cookies[name].value

    def anonymous_client(self, **options: Any) -> httpx.Client:
        """An HTTP client without a login."""
        client = httpx.Client(base_url=self.base_url, timeout=30, verify=NO_TLS, **options)
        self._clients.append(client)
        return client

    @property
    def admin_client(self) -> httpx.Client:
        """A client of user `admin`, who may do everything. Logins expire, so it logs in again in time; while that
        fails, the last login serves."""
        if self._admin is None or time.monotonic() > self._admin[0] + LOGIN_SECONDS:
            try:
                self._admin = time.monotonic(), self.client_for("admin")
            except (httpx.HTTPError, psycopg.Error):
                if self._admin is None:
                    raise
        return self._admin[1]

    def wait_until(self, condition: Any, *, seconds: float = 60, what: str = "the condition") -> Any:
        """Call `condition()` until its result is true and return it; AssertionError after the timeout."""
        deadline = time.monotonic() + seconds
        while True:
            if answer := condition():
                return answer
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not come true in {seconds} s")
            time.sleep(0.1)
