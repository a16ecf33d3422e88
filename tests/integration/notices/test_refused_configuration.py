"""A mounted file that cannot be applied is reported to the operators, once for each content."""

from __future__ import annotations

import pytest

from osmo_admin.cli.server_commands.configuration import apply_mounted_file
from pools.models import Notice
from scheduling.configuration.follower import FileRefused
from tests.integration.notices.conftest import Hook
from tests.support.notices import plan_notices
from tests.support.world import admin_actor


@pytest.mark.usefixtures("ledger")
def test_the_installation_gets_one_notice(hook: Hook) -> None:
    hook(admin_actor(), name="ops", installation=True, kinds=["configuration_refused"])
    hook(admin_actor(), name="other", installation=True, kinds=["job_late"])
    plan_notices()
    for _ in range(2):
        with pytest.raises(FileRefused):
            apply_mounted_file("config.yaml", b"pools: {team: {backend: prod, colour: red, shape: round}}")
    plan_notices()
    (notice,) = Notice.objects.all()
    found = (notice.target.name, notice.kind, notice.subject, notice.title)
    assert found == (
        "ops", "configuration_refused", "config_file/config.yaml", "Configuration refused: config.yaml"
    )  # fmt: skip
    assert "faults), so the former configuration stays" in notice.text and "colour" in notice.text
