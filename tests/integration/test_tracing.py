"""Traces: request, task and cluster call in one, and nothing of it without the setting."""

from __future__ import annotations

import itertools
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from celery import current_app
from celery.app.trace import trace_task
from django.conf import settings
from django.http import HttpResponse
from django.test import Client, RequestFactory
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from osmo_admin.env import EnvError, load_environment
from osmo_admin.monitoring import logs, tracing
from scheduling.kube.connection import errors
from scheduling.kube.connection.client import KubernetesCluster
from scheduling.kube.connection.cluster_access import KubeconfigAccess
from scheduling.kube.connection.resource_kinds import QUEUE
from scheduling.services.notifications import RECONCILE_TASK
from tests.support.http_receiver import Receiver, run_receiver
from tests.support.services import ROOT, Services
from tests.support.stack import Stack

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """The spans that have ended."""
    exporter = InMemorySpanExporter()
    end = tracing.install(SimpleSpanProcessor(exporter))
    yield exporter
    end()


def by_name(spans: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans.get_finished_spans()}


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id


def cluster_at(url: str) -> KubernetesCluster:
    content = {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    return KubernetesCluster(KubeconfigAccess(content))


def run_message(headers: dict[str, Any], work: Any) -> None:
    """A worker runs `work` as a task whose message has these headers, which Celery makes attributes of the request."""

    @current_app.task(name="tests.traced_work")
    def traced_work() -> None:
        work()

    try:
        trace_task(traced_work, "task-1", (), {}, request={**headers, "id": "task-1"}, app=current_app)
    finally:
        current_app.tasks.pop("tests.traced_work")


def test_a_request_its_task_and_the_cluster_call_are_one_trace(spans: InMemorySpanExporter) -> None:
    sent: dict[str, Any] = {}

    def view(request: Any) -> HttpResponse:
        from celery import signals

        signals.before_task_publish.send("a.task", headers=sent)  # as Celery does with each message
        return HttpResponse()

    with run_receiver() as api_server, closing(cluster_at(api_server.url)) as cluster:

        def work() -> None:
            with pytest.raises(errors.ClusterError):  # the receiver answers without JSON
                cluster.create(QUEUE, {"metadata": {"name": "q"}}, field_manager="osmo")

        tracing.TracingMiddleware(view)(RequestFactory().post("/api/x?secret=1", headers={"traceparent": CALLER}))
        run_message(sent, work)
        (received,) = api_server.received

    found = by_name(spans)
    request, task, call = found["POST"], found["tests.traced_work"], found["create queues"]
    assert {f"{trace_of(span):032x}" for span in (request, task, call)} == {CALLER.split("-")[1]}
    assert request.parent is not None
    assert f"{request.parent.span_id:016x}" == CALLER.split("-")[2]
    assert task.parent is not None
    assert task.parent.span_id == request.context.span_id
    assert call.parent is not None
    assert call.parent.span_id == task.context.span_id
    assert received.headers["traceparent"].split("-")[1:3] == [CALLER.split("-")[1], f"{call.context.span_id:016x}"]
    assert not call.status.is_ok
    assert "secret" not in str([span.to_json() for span in found.values()])


def test_a_request_is_named_by_its_route_and_probes_are_not_traced(
    spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        settings, "MIDDLEWARE", ["osmo_admin.monitoring.tracing.TracingMiddleware", *settings.MIDDLEWARE]
    )
    client = Client()
    answer = client.get("/api/version")
    client.get("/health")
    (span,) = spans.get_finished_spans()
    assert (span.name, dict(span.attributes or {})["osmo.request_id"]) == ("GET /api/version", answer["X-Request-ID"])


def test_requests_and_tasks_after_each_other_share_nothing(spans: InMemorySpanExporter) -> None:
    middleware = tracing.TracingMiddleware(lambda request: HttpResponse(status=503))

    def fail() -> None:
        raise RuntimeError("for the test")

    middleware(RequestFactory().get("/api/a"))
    run_message({}, fail)
    run_message({}, lambda: None)
    middleware(RequestFactory().get("/api/b", headers={"traceparent": "nonsense"}))
    found = spans.get_finished_spans()
    assert [span.parent for span in found] == [None] * 4
    assert len({trace_of(span) for span in found}) == 4
    assert [span.status.is_ok for span in found] == [False, False, True, False]


def test_log_lines_of_a_span_have_its_trace(spans: InMemorySpanExporter) -> None:
    formatter = logs.formatter("json", ["osmo_admin.monitoring.tracing.add_trace_ids"])
    record = logging.LogRecord("pools", logging.INFO, __file__, 1, "a line", None, None)
    lines: list[dict[str, Any]] = []

    def view(request: Any) -> HttpResponse:
        lines.append(json.loads(formatter.format(record)))
        return HttpResponse()

    tracing.TracingMiddleware(view)(RequestFactory().get("/api/a"))
    lines.append(json.loads(formatter.format(record)))
    logs.formatter(settings.OSMO.log_format)
    (span,) = spans.get_finished_spans()
    assert lines[0]["trace_id"] == f"{trace_of(span):032x}"
    assert "trace_id" not in lines[1]


def test_a_call_without_a_trace_begins_none(spans: InMemorySpanExporter) -> None:
    with run_receiver() as api_server, closing(cluster_at(api_server.url)) as cluster:
        with pytest.raises(errors.ClusterError):
            cluster.create(QUEUE, {"metadata": {"name": "q"}}, field_manager="osmo")
        assert "traceparent" not in api_server.received[0].headers
    assert spans.get_finished_spans() == ()


def test_the_share_is_of_traces_that_begin_here() -> None:
    exporter = InMemorySpanExporter()
    end = tracing.install(SimpleSpanProcessor(exporter), share=0.0)
    try:
        middleware = tracing.TracingMiddleware(lambda request: HttpResponse())
        middleware(RequestFactory().get("/api/a"))
        assert exporter.get_finished_spans() == ()
        middleware(RequestFactory().get("/api/a", headers={"traceparent": CALLER}))
        assert len(exporter.get_finished_spans()) == 1
    finally:
        end()


@pytest.mark.parametrize("value", ["collector:4318", "ftp://x"])
def test_a_wrong_address_of_the_collector_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSMO_TRACES_URL", value)
    with pytest.raises(EnvError, match="OSMO_TRACES_URL.*http://collector:4318/v1/traces"):
        load_environment()


def test_without_the_extra_the_setting_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("osmo_admin.env.find_spec", lambda name: None)
    monkeypatch.setenv("OSMO_TRACES_URL", "http://collector:4318/v1/traces")
    with pytest.raises(EnvError, match=r"osmo-admin\[tracing\]"):
        load_environment()


def load_django(**env: str) -> list[Any]:
    """Whether a new process with these settings has loaded OpenTelemetry, its first middleware, and its formatter's
    processors."""
    code = (
        "import django, json, sys; django.setup(); from django.conf import settings;"
        "print(json.dumps(['opentelemetry.sdk.trace' in sys.modules, settings.MIDDLEWARE[0],"
        " settings.LOGGING['formatters']['structured']['more_processors']]))"
    )
    environment = {"DJANGO_SETTINGS_MODULE": "osmo_admin.settings", "PATH": "", **env}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, check=True)
    found: list[Any] = json.loads(done.stdout)
    return found


def test_nothing_is_loaded_without_the_setting() -> None:
    assert load_django() == [False, "django_prometheus.middleware.PrometheusBeforeMiddleware", []]


def test_the_setting_sends_traces_to_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_django(OSMO_TRACES_URL="http://127.0.0.1:9/v1/traces") == [
        True, "osmo_admin.monitoring.tracing.TracingMiddleware", ["osmo_admin.monitoring.tracing.add_trace_ids"],
    ]  # fmt: skip
    with run_receiver() as collector:
        end = tracing.start_tracing(f"{collector.url}/v1/traces", 1.0)
        tracing.TracingMiddleware(lambda request: HttpResponse())(RequestFactory().get("/api/a"))
        end()  # what waits is sent
        assert [each.path for each in collector.received] == ["/v1/traces"]


@pytest.mark.nightly
def test_a_served_request_and_the_worker_report_one_trace(
    template: Services, tmp_path: Path, django_db_blocker: Any
) -> None:
    with run_receiver() as collector:
        url = f"{collector.url}/v1/traces"
        stack = Stack(template, tmp_path, django_db_blocker, {"OSMO_TRACES_URL": url, "OTEL_BSP_SCHEDULE_DELAY": "200"})
        try:
            stack.start()
            name, admin = stack.unique_name(), stack.admin_client
            backend = {"nodes": [{"name": "n1", "gpus": 8}], "namespace": name}
            assert admin.put(f"/api/configs/backend/{name}", json={"configs": backend}).status_code == 200
            gpus = itertools.count(1)

            def are_one_trace() -> bool:
                # Again each time: a change that finds the task already waiting sends none of its own.
                pool = {"backend": name, "resources": {"gpu": {"guarantee": next(gpus)}}}
                headers = {"traceparent": CALLER, "X-Request-ID": "traced"}
                answer = admin.put(f"/api/configs/pool/{name}", json={"configs": pool}, headers=headers)
                assert answer.status_code == 200, answer.text
                spans = [span for span in received_spans(collector) if span.trace_id.hex() == CALLER.split("-")[1]]
                requests = {span.span_id for span in spans if span.name.startswith("PUT /api/configs/pool/")}
                return any(span.name == RECONCILE_TASK and span.parent_span_id in requests for span in spans)

            stack.wait_until(are_one_trace, what="the trace of a request and its task")
            line = next(each for each in (tmp_path / "web.log").read_text().splitlines() if "request_id=traced" in each)
            assert f"trace_id={CALLER.split('-')[1]}" in line
        finally:
            stack.stop()


def received_spans(collector: Receiver) -> list[Any]:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    return [
        span
        for each in list(collector.received)
        for resource in ExportTraceServiceRequest.FromString(each.body.encode(errors="surrogateescape")).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
