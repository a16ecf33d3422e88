"""The Celery application. Each app declares its periodic tasks in `tasks.py`; the database holds the schedule."""

from __future__ import annotations

import gc
import os
from typing import Any

from celery import Celery
from celery.signals import worker_process_init
from django_structlog.celery.steps import DjangoStructLogInitStep

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
# Celery would run Django's checks at the start of a worker and of beat, and ignore what they find. They touch every
# model, and each touched page of memory is no longer shared with the other services.
os.environ.setdefault("CELERY_SKIP_CHECKS", "true")

app = Celery("osmo_admin")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.steps["worker"].add(DjangoStructLogInitStep)  # request ids travel with the task


@worker_process_init.connect
def _freeze_loaded_objects(**_: Any) -> None:
    gc.freeze()  # loaded objects stay, so the garbage collector need not scan them during a task
