"""The Django app of the composition root."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks


class OsmoAdminConfig(AppConfig):
    name = "osmo_admin"
    verbose_name = "OSMO Admin"

    def ready(self) -> None:
        from osmo_admin import celery, checks  # noqa: F401  (load the Celery app, register checks)
        from osmo_admin.monitoring import heartbeat  # noqa: F401

        if settings.OSMO.traces_url:
            from osmo_admin.monitoring.tracing import start_tracing

            start_tracing(settings.OSMO.traces_url, settings.OSMO.traces_share)


class OsmoAdminSiteConfig(SimpleAdminConfig):
    """Our own admin site: every user may log in and sees the pages that their roles allow. The addresses load the
    pages: worker, beat, cluster process and most commands show none, and start in two thirds of the time without."""

    default_site = "osmo_admin.site.AdminSite"

    def ready(self) -> None:
        checks.register(check_dependencies, checks.Tags.admin)
        checks.register(_check_pages, checks.Tags.admin)


def _check_pages(app_configs: Any, **options: Any) -> list[checks.CheckMessage]:
    """Django's checks of all pages."""
    import osmo_admin.urls  # noqa: F401  (it loads them)

    found: list[checks.CheckMessage] = check_admin_app(app_configs, **options)
    return found
