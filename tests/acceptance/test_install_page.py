"""The steps of docs/install.md after the chart, as a person types them, against a real API server."""

from __future__ import annotations

import re
import shlex
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from osmo_admin.cli.client import app
from scheduling.kube.connection.resource_kinds import QUEUE
from tests.support.kube_server import KubeServer
from tests.support.services import ROOT
from tests.support.stack import Stack

pytestmark = [pytest.mark.acceptance, pytest.mark.k8s, pytest.mark.timeout(300)]


def read_steps(*titles: str) -> str:
    """The sections of the page with these titles."""
    sections = re.split(r"^## ", (ROOT / "docs" / "install.md").read_text(), flags=re.MULTILINE)
    return "\n".join(next(each for each in sections if title in each) for title in titles)


def test_the_steps_from_a_login_to_a_first_subpool(
    stack: Stack, kube_server: KubeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, pool = stack.unique_name("kube"), stack.unique_name("team")
    text = read_steps("6. The cluster", "7. The first subpool")
    for example, ours in {"prod": name, "osmo-work": name, "team": pool}.items():
        text = re.sub(rf"(?<![\w-]){example}(?![\w-])", ours, text)
    # Outside of a cluster there is no service account.
    kubeconfig = yaml.safe_dump({"kubeconfig": yaml.safe_dump(kube_server.kubeconfig_body())})
    assert "access: in_cluster\n" in text
    text = text.replace("access: in_cluster\n", kubeconfig)
    for file, content in re.findall(r"^`(\w+\.yaml)`.*?```yaml\n(.*?)```", text, re.MULTILINE | re.DOTALL):
        (tmp_path / file).write_text(content)
    monkeypatch.chdir(tmp_path)
    environment = {
        "OSMO_URL": stack.base_url,
        "OSMO_TOKEN": stack.access_token(stack.unique_name("root"), "osmo-admin"),
    }
    commands = [shlex.split(line) for line in re.findall(r"^    osmo (.*)$", text, re.MULTILINE)]
    commands.append(["config", "update", "BACKEND", name, "-f", "apply.yaml"])
    (tmp_path / "apply.yaml").write_text((tmp_path / "backend.yaml").read_text().replace(": report", ": apply"))
    for words in commands:
        done = CliRunner().invoke(app, words, env=environment)
        assert done.exit_code == 0, (words, done.output)
    assert len(commands) == 6
    queue = f"osmo-pool-{name}-{pool}--a"
    with closing(kube_server.connect()) as cluster:

        def has_queue() -> bool:
            items = cluster.list(QUEUE, labels=f"osmo.namespace={name}").items
            return {item["metadata"]["name"]: item["spec"]["resources"]["gpu"]["quota"] for item in items}.get(
                queue
            ) == 12

        stack.wait_until(has_queue, what="the subpool has a queue")
