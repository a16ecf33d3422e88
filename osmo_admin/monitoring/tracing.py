"""Traces with OpenTelemetry: from a request through its task to the calls of a cluster.

Only an installation with `OSMO_TRACES_URL` imports this module, so all others pay nothing. The trace context is W3C's
(`traceparent`): it comes from the headers of a request, travels in the headers of a task's message and goes to the API
server of a cluster. Requests, tasks and calls are traced here and not by the instrumentations of OpenTelemetry: the one
for Celery leaves its span open when the broker does not answer (docs/decisions.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import Token
from typing import Any

from celery import signals
from django.http import HttpRequest, HttpResponse
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from osmo_admin import __version__
from scheduling.kube.connection.call_tracing import set_call_tracer

UNTRACED_PATHS = ("/health", "/ready", "/metrics", "/static/")
"""Beginnings of the paths that probes, scrapers and browsers read all the time."""
FLUSH_MILLISECONDS = 3000
_W3C = TraceContextTextMapPropagator()


def start_tracing(url: str, share: float) -> Callable[[], None]:
    """Send traces to the collector at `url` (OTLP over HTTP), of this share (0 to 1) of those that begin here.

    Returns the function that ends it.
    """
    return install(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)), share)


def install(processor: SpanProcessor, share: float = 1.0) -> Callable[[], None]:
    """Trace requests, tasks and calls of this process with this processor. Returns the function that ends it."""
    provider = TracerProvider(
        resource=Resource.create({"service.name": "osmo-admin", "service.version": __version__}),
        sampler=ParentBased(TraceIdRatioBased(share)),
    )
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("osmo_admin", __version__)
    task_spans = _TaskSpans(tracer)

    def flush(**_: Any) -> None:
        provider.force_flush(FLUSH_MILLISECONDS)

    receivers = (
        (signals.before_task_publish, task_spans.carry_trace),
        (signals.task_prerun, task_spans.begin),
        (signals.task_failure, task_spans.mark_failure),
        (signals.task_postrun, task_spans.end),
        (signals.worker_process_shutdown, flush),  # such a process ends without what atexit has registered
    )
    for signal, receiver in receivers:
        signal.connect(receiver, weak=False)
    set_call_tracer(_CallTracer(tracer))
    _Requests.tracer = tracer

    def end() -> None:
        for signal, receiver in receivers:
            signal.disconnect(receiver)
        set_call_tracer(None)
        _Requests.tracer = None
        provider.shutdown()

    return end


def add_trace_ids(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor of log lines: the ids of the trace and span in which the line is written."""
    current = trace.get_current_span().get_span_context()
    if current.is_valid:
        event["trace_id"] = trace.format_trace_id(current.trace_id)
        event["span_id"] = trace.format_span_id(current.span_id)
    return event


class _Requests:
    tracer: trace.Tracer | None = None


class TracingMiddleware:
    """A span for each request, named by method and route. Queries and bodies are never in it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        tracer, method = _Requests.tracer, request.method or ""
        if tracer is None or request.path_info.startswith(UNTRACED_PATHS):
            return self.get_response(request)
        parent = _W3C.extract(_trace_headers(request.headers), context=Context())
        with tracer.start_as_current_span(method, context=parent, kind=SpanKind.SERVER) as span:
            response = self.get_response(request)
            span.set_attribute("http.request.method", method)
            span.set_attribute("http.response.status_code", response.status_code)
            span.set_attribute("osmo.request_id", response.headers.get("X-Request-ID", ""))
            if (match := request.resolver_match) is not None:
                span.update_name(f"{method} /{match.route}")
                span.set_attribute("http.route", f"/{match.route}")
                span.set_attribute("url.path", request.path_info)
            if response.status_code >= 500:
                span.set_status(Status(StatusCode.ERROR))
            return response


class _TaskSpans:
    """The trace of a task continues the one of the request that sent it."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer
        self._running: dict[str, tuple[Span, Token[Context]]] = {}

    def carry_trace(self, headers: dict[str, Any], **_: Any) -> None:
        _W3C.inject(headers)

    def begin(self, task_id: str, task: Any, **_: Any) -> None:
        carried = {name: value for name in _W3C.fields if isinstance(value := task.request.get(name), str)}
        parent = _W3C.extract(carried, context=Context())
        span = self._tracer.start_span(task.name, context=parent, kind=SpanKind.CONSUMER)
        span.set_attribute("messaging.message.id", task_id)
        self._running[task_id] = span, contexts.attach(trace.set_span_in_context(span))

    def mark_failure(self, task_id: str, exception: BaseException, **_: Any) -> None:
        if task_id in self._running:
            span, _token = self._running[task_id]
            span.record_exception(exception)
            span.set_status(Status(StatusCode.ERROR))

    def end(self, task_id: str, **_: Any) -> None:
        if task_id in self._running:
            span, token = self._running.pop(task_id)
            contexts.detach(token)
            span.end()


class _CallTracer:
    """The calls of a cluster that belong to a trace. Those that an agent makes by itself begin none: the metrics count
    them."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    @contextmanager
    def __call__(self, verb: str, kind: str, method: str, path: str) -> Iterator[Mapping[str, str]]:
        headers: dict[str, str] = {}
        if not trace.get_current_span().get_span_context().is_valid:
            yield headers
            return
        with self._tracer.start_as_current_span(f"{verb} {kind}".strip(), kind=SpanKind.CLIENT) as span:
            span.set_attribute("http.request.method", method)
            span.set_attribute("url.path", path)
            _W3C.inject(headers)
            yield headers


def _trace_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: headers[name] for name in _W3C.fields if name in headers}
