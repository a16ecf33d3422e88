"""All URLs of the server."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path, re_path
from django.views.decorators.csrf import csrf_exempt

from osmo_admin.api_document.api_pages import api_operation, api_page
from osmo_admin.api_document.openapi_views import OpenApiPage, configuration_schema, openapi_file
from osmo_admin.monitoring import health
from osmo_admin.monitoring.metrics import MetricsView
from osmo_admin.web import error_views
from osmo_admin.web.former_pages import former_page
from pools.api.unsupported import UnsupportedConfiguration
from pools.api.version import client_version
from scheduling.api import webhook_urls

admin.autodiscover()  # the pages, which only those processes need that have addresses

urlpatterns = [
    path("health", csrf_exempt(health.health)),
    path("ready", csrf_exempt(health.ready)),
    path("metrics", MetricsView.as_view()),
    path("client/version", csrf_exempt(client_version)),
    path("api/schema", openapi_file, name="openapi"),
    path("api/schema/configuration.json", configuration_schema),
    path("api/docs", api_page, name="api_page"),
    path("api/docs/try", OpenApiPage.as_view(), name="api_try"),
    path("api/docs/<slug:name>", api_operation, name="api_operation"),
    path("api/", include("pools.api.urls")),
    path("api/", include("scheduling.api.urls")),
    path("api/", include(webhook_urls.settings_urls)),
    path("webhooks/", include(webhook_urls.review_urls)),
    path("api/configs/<path:kind>", UnsupportedConfiguration.as_view()),
    re_path("^(?:api|webhooks)/", csrf_exempt(error_views.not_found_view)),
    path("", admin.site.urls),
    re_path("^(?:pools|scheduling|django_celery_beat)/.*$", csrf_exempt(former_page)),
]
handler400 = error_views.bad_request_view
handler404 = error_views.not_found_view
handler500 = error_views.server_error_view
