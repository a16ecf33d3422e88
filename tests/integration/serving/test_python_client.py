"""The typed client as its package builds it, on a served installation."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import threading
import time
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import coroutines
from tests.support.services import ROOT, Services
from tests.support.stack import Stack, find_free_port

FILE = "workflow:\n  name: {name}\n  tasks:\n  - {{name: t, image: i, command: [c], resource: r}}\n"
FILE += "  resources:\n    r: {{gpu: 8}}\n"
OURS = {"message": "", "error_code": "SERVER", "workflow_id": None, "details": []}
TYPED = """
from osmo_admin_client.api.pool_quota import get_pool_quota
from osmo_admin_client.connection import checked, connect
from osmo_admin_client.models import GetPoolQuotaResponse200

with connect("https://osmo.example.com", "token") as client:
    found: GetPoolQuotaResponse200 = checked(get_pool_quota.sync(client=client))
    wrong: int = checked(get_pool_quota.sync(client=client))
"""


def build(folder: Path, kind: str, into: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(into)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (made,) = into.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(running_services: Services, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once a session, from the source package, which is built from the checkout."""
    with running_services.exclusive_lock("wheel"):
        if kept := list(running_services.folder.glob("*.whl")):
            return kept[0]
        folder = tmp_path_factory.mktemp("client")
        with tarfile.open(build(ROOT / "client", "sdist", folder / "source")) as archive:
            archive.extractall(folder, filter="data")
        (unpacked,) = folder.glob("osmo_admin_client-*")
        return Path(shutil.copy(build(unpacked, "wheel", folder / "wheel"), running_services.folder))


@pytest.fixture
def api(wheel: Path, monkeypatch: pytest.MonkeyPatch, no_authorities: None) -> None:
    """The package of the wheel can be imported."""
    monkeypatch.syspath_prepend(str(wheel))


@pytest.fixture
def pool(stack: Stack) -> str:
    """A pool of 16 GPUs on a cluster of 8 that starts nothing."""
    admin, name = stack.admin_client, stack.unique_name()
    body = {"nodes": [{"name": "n1", "gpus": 8}], "namespace": name, "auto_end": False, "offline": True}
    assert admin.put(f"/api/configs/backend/{name}", json={"configs": body}).status_code == 200
    config = {"backend": name, "resources": {"gpu": {"guarantee": 16}}}
    assert admin.put(f"/api/configs/pool/{name}", json={"configs": config}).status_code == 200
    return name


def test_a_script_reads_pools_submits_and_follows_its_workflow(stack: Stack, api: None, pool: str) -> None:
    from osmo_admin_client import models
    from osmo_admin_client.api.pool import post_pool_pool_workflow as submit
    from osmo_admin_client.api.pool_quota import get_pool_quota
    from osmo_admin_client.api.queue import get_queue
    from osmo_admin_client.api.workflow import get_workflow_name
    from osmo_admin_client.connection import Refused, checked, connect

    user = stack.unique_name("user")
    body = models.PostPoolPoolWorkflowBody(file=FILE.format(name=f"{pool}-job"))
    with connect(stack.base_url + "/", stack.access_token(user, f"osmo-{pool}-user")) as client:
        found = checked(get_pool_quota.sync(client=client, pools=[pool]))
        assert isinstance(found, models.GetPoolQuotaResponse200)
        assert str(found.to_dict()).count(f"'{pool}'") >= 1

        tried = checked(submit.sync(pool, client=client, body=body, dry_run="True"))
        assert checked(get_queue.sync(client=client, pool=[pool])).entries == [], tried
        sent = checked(submit.sync(pool, client=client, body=body, idempotency_key="once"))
        again = checked(submit.sync(pool, client=client, body=body, idempotency_key="once"))
        assert sent == again

        (entry,) = checked(get_queue.sync(client=client, pool=[pool])).entries
        assert entry.workflow == sent.name
        assert checked(get_workflow_name.sync(sent.name, client=client)).name == sent.name
        with pytest.raises(Refused) as refused:
            checked(get_workflow_name.sync("no-such-work-1", client=client))
        assert refused.value.error.error_code == "NOTFOUND"


def test_a_wrong_token_is_refused_at_the_first_request(stack: Stack, api: None) -> None:
    from osmo_admin_client.api.queue import get_queue
    from osmo_admin_client.connection import Refused, connect

    for call in (get_queue.sync, get_queue.sync_detailed):
        with connect(stack.base_url, "wrong") as client, pytest.raises(Refused) as refused:
            call(client=client)
        assert refused.value.status in {400, 401}
        assert "token" in str(refused.value)


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (None, "Unreachable", "cannot be reached"),
        ("timeout", "Unreachable", "did not answer in time"),
        ((502, "text/html", "<h1>Bad gateway</h1>"), "Unreachable", "not as OSMO Admin does"),
        ((200, "text/html", "<h1>Sign in</h1>"), "Unreachable", "not as OSMO Admin does"),
        ((302, "text/html", ""), "Unreachable", "sent you on to"),
        ((404, "text/plain", "no such page"), "Refused", "404 Not Found"),
        ((429, "application/json", json.dumps(OURS | {"message": "Slow down."})), "Refused", "Slow down."),
        ((500, "application/json", json.dumps(OURS | {"message": "An error."})), "Refused", "An error."),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("of_login", "way"), [(True, "sync"), (False, "asyncio")])
def test_each_failure_is_one_of_two_errors(
    answer: Any, error: str, words: str, of_login: bool, way: str, api: None
) -> None:
    """At the login as well as at the request itself; `answer` None: nobody listens."""

    from osmo_admin_client import connection
    from osmo_admin_client.api.queue import get_queue

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            good = 200, "application/json", json.dumps({"token": "t", "expires_at": int(time.time()) + 300})
            self._send(*(answer if of_login and isinstance(answer, tuple) else good))

        def do_GET(self) -> None:
            if answer == "timeout":
                time.sleep(1.5)
                return
            self._send(*answer)

        def _send(self, status: int, kind: str, body: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Location", "https://elsewhere.example/")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            port = find_free_port() if answer is None else server.server_port
            client = connection.connect(f"http://127.0.0.1:{port}", "secret-token", timeout=0.5)
            call = get_queue.sync if way == "sync" else lambda client: coroutines.run(get_queue.asyncio(client=client))
            with pytest.raises(getattr(connection, error), match=words) as raised:
                call(client=client)
            assert "secret-token" not in str(raised.value)
        finally:
            server.shutdown()


def test_a_login_is_used_again_and_renewed_before_it_ends(api: None) -> None:
    from osmo_admin_client.connection import TokenLogin

    requests: list[str] = []
    lives = iter([20, 300])  # the first login is about to end when it is made

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(f"{request.url.path} {request.headers.get('Authorization', '')}".strip())
        if request.url.path == "/login":
            life: Any = next(lives)
            return httpx.Response(200, json={"token": f"t{life}", "expires_at": int(time.time()) + life})
        return httpx.Response(200, json={})

    with httpx.Client(transport=httpx.MockTransport(answer), auth=TokenLogin("http://x/login", "secret")) as client:
        for _ in range(3):
            client.get("http://x/read")
    assert requests == ["/login", "/read Bearer t20", "/login", "/read Bearer t300", "/read Bearer t300"]


def test_the_client_has_the_version_of_the_server() -> None:
    files = (ROOT / "pyproject.toml", ROOT / "client/pyproject.toml")
    versions = {tomllib.loads(path.read_text())["project"]["version"] for path in files}
    assert len(versions) == 1


@pytest.mark.nightly
def test_a_type_checker_knows_the_answers(wheel: Path, tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    (tmp_path / "script.py").write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "script.py"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert [line.split(":")[1] for line in found.stdout.splitlines() if ": error:" in line] == ["8"], found.stdout
