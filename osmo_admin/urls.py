"""Every address of the house."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path, re_path
from django.views.decorators.csrf import csrf_exempt

from osmo_admin import errors, health
from osmo_admin.metrics import Metrics
from osmo_admin.schema_views import Docs, schema
from pools.api.unsupported import NotOffered
from pools.api.version import client_version
from scheduling.api import webhook_urls

urlpatterns = [
    path("health", csrf_exempt(health.health)),
    path("ready", csrf_exempt(health.ready)),
    path("metrics", Metrics.as_view()),
    path("client/version", csrf_exempt(client_version)),
    path("api/schema", schema, name="openapi"),
    path("api/docs", Docs.as_view()),
    path("api/", include("pools.api.urls")),
    path("api/", include("scheduling.api.urls")),
    path("api/", include(webhook_urls.settings)),
    path("webhooks/", include(webhook_urls.reviews)),
    path("api/configs/<path:kind>", NotOffered.as_view()),
    re_path("^(?:api|webhooks)/", csrf_exempt(errors.unknown_address)),
    path("", admin.site.urls),
]
handler400 = errors.bad_request
handler404 = errors.unknown_address
handler500 = errors.server_error
