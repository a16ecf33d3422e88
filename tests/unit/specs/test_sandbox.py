"""The processes that render: their start and end have no effect on answers."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from osmo_admin.ops.programs import process_commands
from pools.domain.errors import Busy
from scheduling.specs.rendering import sandbox
from scheduling.specs.rendering.file_text import MAX_FILE_BYTES
from scheduling.specs.rendering.variables import encode_variables

MEMORY_LEFT = MAX_FILE_BYTES


@pytest.fixture(autouse=True)
def own_pool(monkeypatch: pytest.MonkeyPatch) -> sandbox._RenderProcessPool:
    pool = sandbox._RenderProcessPool()
    monkeypatch.setattr(sandbox, "_pools", {os.getpid(): pool})
    yield pool
    pool.close()


def text_of(template: str, **values: object) -> str:
    answer = sandbox.render_in_sandbox(template, encode_variables(values), MEMORY_LEFT, seconds=3)
    return str(answer["text"])


def test_a_worker_is_used_again(own_pool: sandbox._RenderProcessPool) -> None:
    assert text_of("{{ a }}", a=1) == "1"
    (worker,) = own_pool.idle
    assert text_of("{{ a }}", a=[1, {"b": None}]) == "[1, {'b': None}]"
    assert own_pool.idle == [worker]


def test_a_worker_that_was_killed_while_idle_is_replaced(own_pool: sandbox._RenderProcessPool) -> None:
    text_of("x")
    (worker,) = own_pool.idle
    worker.process.kill()
    worker.process.wait()
    assert text_of("{{ 1 + 1 }}") == "2"


def test_a_worker_is_renewed_after_many_renders(
    own_pool: sandbox._RenderProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_RENDERS_BEFORE_RENEWAL", 2)
    text_of("x")
    (worker,) = own_pool.idle
    text_of("x")
    assert own_pool.idle == []
    assert worker.process.poll() is not None


def test_a_slow_template_ends_only_its_worker(own_pool: sandbox._RenderProcessPool) -> None:
    endless = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    answer = sandbox.render_in_sandbox(endless, encode_variables({}), MEMORY_LEFT, seconds=0.3)
    assert answer["error"]["code"] == "too_slow"
    assert own_pool.idle == []


def test_several_at_once() -> None:
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(text_of("{{ n }}" * 50, n=n)))
        for n in range(sandbox.RENDERS_AT_ONCE)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(str(n) * 50 for n in range(sandbox.RENDERS_AT_ONCE))


def test_one_thread_of_a_web_process_is_never_taken_by_templates() -> None:
    assert sandbox.RENDERS_AT_ONCE < process_commands.WEB_THREADS


def test_a_render_beyond_them_is_refused_and_holds_no_thread(own_pool: sandbox._RenderProcessPool) -> None:
    for _ in range(sandbox.RENDERS_AT_ONCE):
        assert own_pool.slots.acquire(blocking=False)
    with pytest.raises(Busy, match="nothing was stored") as refused:
        text_of("x")
    assert refused.value.retry_after == sandbox.RETRY_SECONDS
    own_pool.slots.release()
    assert text_of("x") == "x"


def test_a_forked_process_has_workers_of_its_own(own_pool: sandbox._RenderProcessPool) -> None:
    text_of("x")
    sandbox._pools[os.getpid() + 1] = other = sandbox._RenderProcessPool()
    assert sandbox._current_pool() is own_pool
    assert other.idle == []


def test_a_missing_worker_is_not_a_fault_of_the_template(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sandbox, "_WORKER", tmp_path / "gone.py")
    with pytest.raises(Busy):
        text_of("x")


def test_a_worker_sees_nothing_of_our_environment(
    own_pool: sandbox._RenderProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSMO_SECRET", "s3cret")
    text_of("x")
    environment = Path(f"/proc/{own_pool.idle[0].process.pid}/environ")
    if environment.exists():  # only Linux shows it
        assert b"s3cret" not in environment.read_bytes()
    assert "OSMO_SECRET" in os.environ


def test_large_values_go_there_and_back() -> None:
    large = "ä" * (MAX_FILE_BYTES // 4)
    assert text_of("{{ x }}", x=large) == large
