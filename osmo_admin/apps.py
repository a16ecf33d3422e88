"""The Django app of the composition root."""

from __future__ import annotations

from django.apps import AppConfig
from django.conf import settings
from django.contrib.admin.apps import AdminConfig


class OsmoAdminConfig(AppConfig):
    name = "osmo_admin"
    verbose_name = "OSMO Admin"

    def ready(self) -> None:
        from osmo_admin import celery, checks  # noqa: F401  (load the Celery app, register checks)
        from osmo_admin.monitoring import heartbeat  # noqa: F401

        if settings.OSMO.traces_url:
            from osmo_admin.monitoring.tracing import start_tracing

            start_tracing(settings.OSMO.traces_url, settings.OSMO.traces_share)


class OsmoAdminSiteConfig(AdminConfig):
    """Our own admin site: every user may log in and sees the pages that their roles allow."""

    default_site = "osmo_admin.site.AdminSite"
