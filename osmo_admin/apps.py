"""Django's handle on the composition root."""

from __future__ import annotations

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig


class OsmoAdminConfig(AppConfig):
    name = "osmo_admin"
    verbose_name = "OSMO Admin"

    def ready(self) -> None:
        from osmo_admin import celery, checks, heartbeat  # noqa: F401  (load the Celery app, register checks)


class OsmoAdminSiteConfig(AdminConfig):
    """The admin site is ours: everybody with a login may enter and sees what the roles allow."""

    default_site = "osmo_admin.site.AdminSite"
