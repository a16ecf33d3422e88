"""Each process ends with one sentence if its secret key is not that of the database, or can be guessed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from osmo_admin.ops.programs import process_commands
from osmo_admin.processes.start_checks import refuse_unfit_process
from pools.services.changes.secret_key import claim_database
from tests.support import database
from tests.support.services import Services
from tests.support.stack import SECRET_KEY
from tests.support.up import run_osmo_admin, run_preloaded

OTHER_KEY = "another-key-of-many-characters-0123456789"
REFUSED = "OSMO_SECRET_KEY is not the key of this database"
# `serve` checks once, whichever of the programs it then becomes; each program checks by itself.
COMMANDS = {
    "web": process_commands.web_command("127.0.0.1", 1),
    "webhook": process_commands.webhook_command("127.0.0.1", 1, Path("none"), Path("none")),
    "worker": process_commands.worker_command(),
    "beat": process_commands.beat_command(),
    "clusters": process_commands.clusters_command(),
    "prepare": process_commands.bootstrap_command(),
}
PROGRAMS = {"serve": ["osmo_admin.cli.server", "serve", "beat"], **{name: each[2:] for name, each in COMMANDS.items()}}


@pytest.fixture
def claimed(template: Services, django_db_blocker: Any) -> Iterator[dict[str, str]]:
    """The environment of processes on a database that has a key."""
    name = template.database_name("keys")
    database.copy_template(template, name)
    with django_db_blocker.unblock(), database.use_database(template.database_url(name)):
        claim_database()
        yield {
            "DATABASE_URL": template.database_url(name), "REDIS_URL": template.redis_url(stack=True),
            "OSMO_SECRET_KEY": OTHER_KEY,
        }  # fmt: skip
    database.drop_database(template, name)


def test_another_key_ends_each_process_with_one_sentence(claimed: dict[str, str]) -> None:
    for name, (module, *arguments) in PROGRAMS.items():
        done = run_preloaded(*arguments, module=module, env=claimed)
        assert done.returncode == 1, name
        assert done.stderr.splitlines()[-1].startswith(REFUSED), (name, done.stderr)
        assert "Traceback" not in done.stdout + done.stderr, name
        assert OTHER_KEY not in done.stdout + done.stderr, name


def test_a_key_that_can_be_guessed_is_refused_by_the_same_check(settings: Any) -> None:
    settings.SECRET_KEY = "a" * 10
    with pytest.raises(ImproperlyConfigured, match="OSMO_SECRET_KEY can be guessed: it has 10 characters"):
        refuse_unfit_process()


def test_a_former_key_is_enough_and_a_lost_one_is_replaced(claimed: dict[str, str], settings: Any) -> None:
    settings.SECRET_KEY = OTHER_KEY
    with pytest.raises(ImproperlyConfigured, match=REFUSED):
        refuse_unfit_process()
    settings.SECRET_KEY_FALLBACKS = [SECRET_KEY]
    refuse_unfit_process()
    settings.SECRET_KEY_FALLBACKS = []
    answer = run_osmo_admin("key", "adopt", env=claimed)
    assert answer.returncode == 0, answer.stderr
    assert "0 stored secrets cannot be read" in answer.stdout
    refuse_unfit_process()
