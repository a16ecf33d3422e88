"""Two people apply a folder at the same moment: one transaction writes, the other finds nothing to do or is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from pools.domain.errors import Busy
from pools.domain.people.roles import SYSTEM
from pools.models import AuditEntry, Pool
from scheduling.configuration.files import ConfigurationFiles, read_file
from scheduling.services import configuration
from scheduling.services.configuration import AppliedConfiguration, ApplyOptions, apply_configuration
from tests.support.threads import run_concurrently

pytestmark = [pytest.mark.race, pytest.mark.usefixtures("ledger")]

FILE = """\
backends:
  sim: {namespace: ns, nodes: [{name: n1, gpus: 64}]}
pools:
  team:
    backend: sim
    resources: {gpu: {guarantee: GUARANTEE}}
    subpools: {a: 8, b: 4}
    subpools_owner: git
cohorts:
  all: {quotas: [{resource: gpu, nominal: 4}]}
"""
START = FILE.replace("GUARANTEE", "32")
GROWN = START.replace("guarantee: 32", "guarantee: 48").replace("a: 8", "a: 20")
LENT = START.replace("nominal: 4", "nominal: 6")


def apply(text: str, commit: str = "") -> AppliedConfiguration:
    files = ConfigurationFiles()
    read_file("all.yaml", text.encode(), files)
    options = ApplyOptions("git@example.com/config", commit=commit)
    return apply_configuration(actor=SYSTEM, files=files, options=options)


@pytest.fixture
def meet(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From then on two calls of apply take their locks only after both have compared files and installation."""

    def start() -> None:
        barrier, real = threading.Barrier(2), configuration._take_locks

        def wait_and_lock(*args: Any) -> None:
            barrier.wait(30)
            real(*args)

        monkeypatch.setattr(configuration, "_take_locks", wait_and_lock)

    return start


@pytest.mark.parametrize("installed", [None, START], ids=["from nothing", "a change"])
def test_of_two_who_apply_the_same_folder_one_writes(installed: str | None, meet: Callable[[], None]) -> None:
    if installed:
        apply(installed)
    before = AuditEntry.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    meet()
    found = run_concurrently([lambda: apply(GROWN), lambda: apply(GROWN)])
    assert all(isinstance(each, AppliedConfiguration) for each in found), found
    counts = sorted(len(each.comparison.changes) for each in found if isinstance(each, AppliedConfiguration))
    assert counts == [0, 1 if installed else 3]
    assert Pool.objects.get(name="team--a").last_quota == 20
    writers = AuditEntry.objects.filter(pk__gt=before).order_by().values_list("transaction", flat=True).distinct()
    assert len(writers) == 1, "the second wrote nothing"


def test_of_two_who_apply_different_folders_one_is_refused(meet: Callable[[], None]) -> None:
    """The second would undo what it has not seen: its files do not have the change of the first."""
    apply(START)
    meet()
    found = run_concurrently([lambda: apply(GROWN), lambda: apply(LENT)])
    (refused,) = [each for each in found if isinstance(each, Exception)]
    assert isinstance(refused, Busy)
    assert "The installation was changed while the files were compared; nothing was written" in refused.message
    won = GROWN if found[1] is refused else LENT
    assert apply(won).comparison.changes == (), "the first is there as a whole"
