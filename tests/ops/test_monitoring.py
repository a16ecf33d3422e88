"""The dashboards and the alert rules that we ship, evaluated by a real Prometheus on the real `/metrics`."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.db import connection
from django.test import Client
from django.utils import timezone

from osmo_admin.doctor import checks
from osmo_admin.doctor.findings import Finding
from osmo_admin.doctor.reports import REPORTS, Reporter
from osmo_admin.monitoring import heartbeat
from osmo_admin.ops.files import certificates
from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.gpu_allocations import AllocateWorker
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.changes.tokens import CreateToken
from pools.domain.gpu_quota.workers import GpuAmounts, GpuWorker
from pools.domain.people.roles import SYSTEM
from pools.domain.values.quantities import parse_quantity
from pools.models import AccessToken, Backend, KubernetesSettings
from pools.services.configuration.cohorts import put_cohort
from pools.services.gpu_quota.gpu_allocations import allocate
from pools.services.gpu_quota.gpu_quotas import put_gpu_quota
from pools.services.people import access_tokens
from scheduling.domain.priorities import Priority
from scheduling.kube.connection import metrics as cluster_counters
from scheduling.models import Group
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.support import world
from tests.support.flavors import make_flavored_pool, submit_gpus
from tests.support.services import ROOT, Services
from tests.support.stack import find_free_port

pytestmark = [pytest.mark.prometheus, pytest.mark.django_db]

DASHBOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
RUNBOOKS = ROOT / "docs" / "runbooks.md"
WATCHING = ROOT / "docs" / "watching.md"
CASES = Path(__file__).with_name("alert_cases.yaml")
_METRIC = re.compile(r"\b(?:(?:osmo|kai|django)_[a-z0-9_]+|up(?=\{))")
SCRAPE_SECRET = "s" * 43
_LABELS = re.compile(r"(?:by|on)\s*\(([^)]*)\)|[{,]\s*([a-z_]+)\s*(?==|!)")


def _expressions(dashboard: Path) -> Iterator[tuple[str, str]]:
    for panel in json.loads(dashboard.read_text())["panels"]:
        for target in panel["targets"]:
            filled = target["expr"].replace("$__rate_interval", "1m")
            yield panel["title"], re.sub(r"\$(pool|backend)\b", ".*", filled)


def _alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@dataclass
class Prometheus:
    """A running server that has scraped the page several times."""

    base: str
    page: bytes = b""

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result of an expression now."""
        return self._get("query", query=expression)["result"]  # type: ignore[no-any-return]

    def labels_of(self, metric: str) -> set[str]:
        """The labels of all series of a metric."""
        return {label for series in self._get("series", **{"match[]": metric}) for label in series}

    def _get(self, path: str, **query: str) -> Any:
        with urllib.request.urlopen(f"{self.base}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=60) as answer:
            body = json.load(answer)
        assert body["status"] == "success", body
        return body["data"]


@pytest.fixture
def prometheus(db: None, running_services: Services, tmp_path: Path) -> Iterator[Prometheus]:
    """A server that scrapes the page of an installation in which every kind of thing exists and changes."""
    heartbeat.redis_client().delete(REPORTS)
    _fill_installation(tmp_path)
    pages = [_page()]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(pages[-1])

        def log_message(self, *_: object) -> None:
            """Nothing."""

    port = find_free_port()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as target:
        threading.Thread(target=target.serve_forever, daemon=True).start()
        config = {
            "global": {"scrape_interval": "300ms"},
            "rule_files": [str(ALERTS)],
            "scrape_configs": [
                {"job_name": "osmo", "static_configs": [{"targets": [f"127.0.0.1:{target.server_port}"]}]}
            ],
        }
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
        command = ["prometheus", f"--config.file={tmp_path / 'prometheus.yml'}", f"--storage.tsdb.path={tmp_path}/data"]
        with (
            (tmp_path / "log").open("wb") as log,
            subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stderr=log, stdout=log) as process,
        ):
            try:
                server = Prometheus(f"http://127.0.0.1:{port}")
                _wait_for_samples(server, 2)
                _count_more()
                pages.append(_page())
                _wait_for_samples(server, 2, since=time.time())
                server.page = pages[-1]
                yield server
            finally:
                process.terminate()
                target.shutdown()


def _wait_for_samples(server: Prometheus, count: int, *, since: float = 0) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            found = server.query("osmo_pools_left_out[1m]")
        except OSError:
            found = []
        if found and sum(at > since for at, _ in found[0]["values"]) >= count:
            return
        time.sleep(0.2)
    raise AssertionError("Prometheus did not scrape the page.")


def _page() -> bytes:
    token = AccessToken.objects.get(name="scrape")
    answer = Client().get("/metrics", headers={"Authorization": f"Bearer {SCRAPE_SECRET}"})
    assert token.expires_at > timezone.now()
    assert answer.status_code == 200
    return bytes(answer.content)


def _fill_installation(folder: Path) -> None:
    world.make_user("prometheus", "osmo-viewer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(access_tokens, "new_secret", lambda: SCRAPE_SECRET)
        access_tokens.create_token(CreateToken(owner="prometheus", name="scrape"), actor=SYSTEM)
    AccessToken.objects.update(last_used_at=timezone.now())
    for kind in ("web", "webhook", "worker", "beat", "clusters"):
        _report(kind, folder)
    put_cohort(
        PutCohort(name="company", body={"quotas": [{"flavor": "default", "resource": "gpu", "nominal": 7}]}),
        actor=SYSTEM,
    )
    pool = world.make_pool("team", 100, a=30)
    bob = world.make_user("bob", "osmo-team-user")
    for number in range(26):
        world.submit_workflow(bob, "team", gpus=8, name=f"loose{number}", priority=Priority.LOW)
    assert pool.backend_id is not None
    reconcile_backend(pool.backend_id)
    for number in range(5):
        world.submit_workflow(bob, "team--a", gpus=8, name=f"firm{number}")
    reconcile_backend(pool.backend_id)
    put_gpu_quota(PutGpuQuota(namespace="team-a", spec={"total": {"requests": {"tflops": "10"}}}), actor=SYSTEM)
    worker = GpuWorker(request=GpuAmounts(tflops=parse_quantity("9.6"), vram=parse_quantity("1Gi")), count=1)
    allocate(
        AllocateWorker(namespace="team-a", id="w1", request=worker.request, limit=worker.limit, count=worker.count),
        actor=SYSTEM,
    )
    make_flavored_pool("kinds", backend="kinds")
    for flavors in (["h100"], []):
        submit_gpus(world.admin_actor(), 8, *flavors, to="kinds--a")
    cluster = Backend.objects.create(name="prod", namespace="prod", kind=Backend.Kind.KUBERNETES)
    KubernetesSettings.objects.create(backend=cluster, access=KubernetesSettings.Access.IN_CLUSTER)
    _count_more()


def _report(kind: str, folder: Path) -> None:
    """The report of a process of this kind, with one that has a certificate of the webhook server and a provider."""
    certificates.ensure_certificate(folder / "webhook", {"localhost"})
    found = [Finding("provider", "corp", True, "It answers.")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "run_checks", lambda kind, *, all_of_them: found)
        patch.setattr(settings, "OSMO", replace(settings.OSMO, data_dir=folder))
        Reporter(kind).step(heartbeat.redis_client())


def _count_more() -> None:
    """Counters that other processes raise, and requests."""
    for _ in range(3):
        Client().get("/api/version")
    cluster_counters.count_call("prod", "get", "queues", "2xx")
    cluster_counters.count_wait("prod", "work", 0.5)
    cluster_counters.count_repair("prod", "PodGroup", "spec.minMember")
    from osmo_admin.web import review_path

    review_path._SECONDS.labels("pod", "yes").observe(0.002)
    waiting = Group.objects.filter(start_time__isnull=True).order_by("uuid").values_list("uuid", flat=True)[:2]
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduling_group SET ready_at = %s WHERE uuid = ANY(%s)",
            [timezone.now() - timedelta(minutes=7), list(waiting)],
        )


def test_each_query_of_the_dashboards_has_data(prometheus: Prometheus) -> None:
    empty = [
        f"{path.stem}: {title}: {expression}"
        for path in DASHBOARDS
        for title, expression in _expressions(path)
        if not prometheus.query(expression)
    ]
    assert len(DASHBOARDS) == 4
    assert empty == []
    for rule in _alerts():  # the expression runs, and all its metrics have the labels that it names
        prometheus.query(rule["expr"])
        named = {name.strip() for pair in _LABELS.findall(rule["expr"]) for part in pair for name in part.split(",")}
        metrics = set(_METRIC.findall(rule["expr"]))
        assert metrics, rule["alert"]
        labels = {metric: prometheus.labels_of(metric) for metric in metrics}
        assert all(labels.values()), (rule["alert"], labels)
        assert named - {""} <= set().union(*labels.values()), (rule["alert"], named, labels)
        shown = re.findall(r"\$labels\.([a-z_]+)", rule["annotations"]["summary"])
        assert set(shown) <= set().union(*labels.values()), rule["alert"]

    shown = {name for _, expression in _queries_of_runbooks() for name in _METRIC.findall(expression)}
    assert [name for name in sorted(shown) if not prometheus.labels_of(name)] == [], "metrics of the runbooks"
    for section, expression in _queries_of_runbooks():
        assert prometheus.query(expression) is not None, section
    check_that_each_metric_says_what_it_means(prometheus.page.decode())


def _queries_of_runbooks() -> Iterator[tuple[str, str]]:
    for section in RUNBOOKS.read_text().split("\n## ")[1:]:
        for expression in re.findall(r"`([^`]+)`", section.split("* Query: ")[1].split("\n* ")[0]):
            yield section.split("\n")[0], expression


def check_that_each_metric_says_what_it_means(page: str) -> None:
    """docs/watching.md names the HELP lines as the reference of the metrics."""
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", page, flags=re.MULTILINE))
    shown = {
        name for name in re.findall(r"^# TYPE (\S+)", page, flags=re.MULTILINE) if name.startswith(("osmo_", "kai_"))
    }
    assert len(shown) > 50
    sentence = re.compile(r"\S+( \S+){2,}\.")
    assert [name for name in sorted(shown) if not sentence.fullmatch(helps.get(name, ""))] == []
    assert set(_METRIC.findall(WATCHING.read_text())) - {"kai_queue_"} <= shown | {"osmo_row_faults_total"}


def test_each_alert_fires_and_is_quiet(tmp_path: Path) -> None:
    """The cases of an alert with its rule alone: `promtool` evaluates all rules of a file in each minute of a case."""
    cases = yaml.safe_load(CASES.read_text())
    rules = {rule["alert"]: rule for rule in _alerts()}
    fires, quiet = set(), set()
    for number, case in enumerate(cases["tests"]):
        for each in case["alert_rule_test"]:
            (fires if each["exp_alerts"] else quiet).add(each["alertname"])
        named = [rules[name] for name in {each["alertname"] for each in case["alert_rule_test"]}]
        (tmp_path / f"rules{number}.yaml").write_text(yaml.safe_dump({"groups": [{"name": "x", "rules": named}]}))
        file = {**cases, "rule_files": [f"rules{number}.yaml"], "tests": [case]}
        (tmp_path / f"case{number}.yaml").write_text(yaml.safe_dump(file))
    assert fires == quiet == rules.keys()
    files = sorted(tmp_path.glob("case*.yaml"))
    ran = subprocess.run(["promtool", "test", "rules", *files], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_files_are_what_their_script_writes() -> None:
    ran = subprocess.run([ROOT / "scripts" / "make-dashboards", "--check"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
