"""Templates are programs: a request renders for three seconds in all, and a user one request at a time."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from pools.domain.errors import Throttled
from scheduling.locking import hold_render_turn
from scheduling.models import Workflow
from scheduling.specs.rendering import render_budget, sandbox
from tests.support.threads import held_elsewhere
from tests.support.world import workflow_file

BATCH = "/api/pool/team/workflows"
_LOOP = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"


def slow_file(name: str) -> str:
    """The file of the review: rendering it would take hours."""
    return f'workflow:\n  name: {name}\n  tasks:\n  - {{name: a, image: b, command: [c], args: ["{_LOOP}"]}}\n'


def templated_file(name: str) -> str:
    tasks = "  tasks:\n  - {name: t, image: i, command: [sh]}\n"
    return f"workflow:\n  name: '{{{{ n }}}}-{name}'\n{tasks}default-values: {{n: x}}\n"


@pytest.fixture
def renders(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that each render of a test was allowed to take; a budget is 0.3 s."""
    monkeypatch.setattr(render_budget, "RENDER_SECONDS", 0.3)
    allowed: list[float] = []
    real = sandbox.render_in_sandbox

    def render(template: str, variables: Any, largest: int, *, seconds: float) -> dict[str, Any]:
        allowed.append(seconds)
        return real(template, variables, largest, seconds=seconds)

    monkeypatch.setattr(sandbox, "render_in_sandbox", render)
    return allowed


@pytest.mark.parametrize("query", ["dry_run=True", ""])
def test_a_request_stops_at_its_first_slow_template(alice: Any, renders: list[float], query: str) -> None:
    files = [{"file": slow_file(f"t{n}")} for n in range(3)]
    answer = alice.post(BATCH, {"workflows": [{"file": workflow_file()}, *files]}, query=query)

    assert alice.status == 400
    assert renders == [0.3]
    assert [(fault["path"], fault["code"]) for fault in answer["details"]] == [
        ("workflows[1].file", "template_too_slow"),
        ("workflows", "not_read"),
    ]
    assert "workflows[1]" in answer["message"]
    assert "Make its loops smaller" in answer["message"]
    assert "The 2 workflows after it were not read" in answer["details"][1]["message"]
    assert not Workflow.objects.exists()


def test_the_templates_of_a_request_share_one_budget(alice: Any, renders: list[float], monkeypatch: Any) -> None:
    real = sandbox.render_in_sandbox

    def render(*given: Any, seconds: float) -> dict[str, Any]:
        return real(*given, seconds=seconds) | {"seconds": 0.2}  # a template whose processor time is 0.2 s

    monkeypatch.setattr(sandbox, "render_in_sandbox", render)
    answer = alice.post(BATCH, {"workflows": [{"file": templated_file("a")}, {"file": slow_file("b")}]})

    assert alice.status == 400
    assert renders == [0.3, pytest.approx(0.1)]
    assert [(fault["path"], fault["code"]) for fault in answer["details"]] == [
        ("workflows[1].file", "template_budget_spent")
    ]
    assert "several requests" in answer["message"]


def test_one_request_of_a_user_renders_at_a_time_in_all_processes(alice: Any, caller: Any) -> None:
    with held_elsewhere(hold_render_turn(alice.user.pk)):
        answer = alice.submit("team", templated_file("a"))
        assert (alice.status, alice.last.headers["Retry-After"]) == (429, "2")
        assert "one request of a user" in answer["message"]
        assert "Nothing was stored" in answer["message"]
        alice.submit("team", workflow_file("plain"))  # a file without a template renders nothing
        assert alice.status == 200
        bob = caller("bob", "osmo-team-user")
        bob.submit("team", templated_file("b"))
        assert bob.status == 200, "others render meanwhile"
    alice.submit("team", templated_file("a"))
    assert alice.status == 200


@pytest.mark.parametrize("query", ["dry_run=True", ""])
def test_a_turn_ends_with_its_request(alice: Any, query: str) -> None:
    for file in (templated_file("a"), slow_syntax := "{% broken" + workflow_file()):
        alice.submit("team", file, query=query)
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = %s", [0x05E9])
            assert cursor.fetchone() == (0,), slow_syntax


def test_a_refused_turn_stores_no_key(alice: Any) -> None:
    """The same key works once the turn is free: nothing was lost."""
    key = {"Idempotency-Key": "k1"}
    with pytest.MonkeyPatch.context() as patch:

        def refuse(*_: Any) -> Any:
            raise Throttled("One at a time.", retry_after=2)

        patch.setattr("scheduling.services.workflows.submission.hold_render_turn", refuse)
        alice.submit("team", templated_file("a"), **key)
        assert alice.status == 429
    alice.submit("team", templated_file("a"), **key)
    assert (alice.status, Workflow.objects.count()) == (200, 1)
