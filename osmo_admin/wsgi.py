"""The web application as servers load it."""

import os

from django.core.wsgi import get_wsgi_application

from osmo_admin import checks

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
application = get_wsgi_application()
checks.refuse_unsafe()
