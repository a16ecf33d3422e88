"""The applications of granian: `application` in the web server, `webhooks` in the server that clusters call."""

import resource
from functools import partial

from osmo_admin.wsgi import application as wsgi_application  # sets up Django, which the other modules need

# isort: split
from django.conf import settings

from osmo_admin.doctor.reports import Reporter
from osmo_admin.monitoring.heartbeat import keep_registering
from osmo_admin.monitoring.logs import leave_out_call_sites
from osmo_admin.ops.programs.process_commands import (
    CONNECTIONS,
    OTHER_FILES,
    WEB,
    WEB_THREADS,
    WEBHOOK,
    WEBHOOK_THREADS,
)
from osmo_admin.serving.bodies import RequestBodies
from osmo_admin.serving.collector import set_collector_for_requests
from osmo_admin.serving.server import Server

# Bodies in memory at a time, in bodies of the largest size.
LARGEST_BODIES = 16


def _make_bodies() -> RequestBodies:
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return RequestBodies(seconds=settings.OSMO.body_timeout, limit=limit, memory=LARGEST_BODIES * limit)


def _allow_many_connections() -> None:
    """Raise the soft limit of open files, because many connections may be open without a request."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _report(kind: str) -> None:
    keep_registering(kind)
    Reporter(kind).start()


_allow_many_connections()
# Where the webhook server demands a client certificate, the web server must not be a way around it.
application = Server(
    wsgi_application,
    threads=WEB_THREADS,
    bodies=_make_bodies(),
    closed_paths=("/webhooks/",) if settings.OSMO.webhook_client_ca else (),
    on_start=partial(_report, WEB),
)
webhooks = Server(
    wsgi_application,
    threads=WEBHOOK_THREADS,
    bodies=_make_bodies(),
    only_paths=("/webhooks/", "/health"),
    on_start=partial(_report, WEBHOOK),
)
set_collector_for_requests()
leave_out_call_sites()
