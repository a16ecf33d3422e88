"""The WSGI application, for Django's own tools. The servers run `osmo_admin.web.rsgi`, which calls it."""

import os

from django.core.wsgi import get_wsgi_application

from osmo_admin import checks
from osmo_admin.processes.django_setup import set_up_django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
checks.refuse_unsafe_settings()  # before the setup, which takes a second: the server starts a failed worker again
set_up_django()
django_application = get_wsgi_application()

import osmo_admin.urls  # noqa: E402, F401  (before the first request, which would wait for all pages)
from osmo_admin.web.review_path import ReviewPath  # noqa: E402  (its models need Django)

application = ReviewPath(django_application)
