"""Work of observed clusters: workflows that another scheduler starts and ends."""

from __future__ import annotations

from django.db import models
from django.db.models import Q, Value

from pools.models import Backend
from pools.models.triggers import NoTruncateTrigger
from scheduling.models.workflow import Workflow


class ObservedWork(models.Model):
    """The mark of a workflow that was seen in an observed cluster, with the object there. `pods` are the ids of its
    tasks by the uid of the pod, `pod_names` uid and name of the pod of each task whose pod was there at the last look,
    by the id of the task; `notes` name what it asks for and nothing counts, `owner` is the user name in its label. It
    `is_open` while the object may still run; one object is counted once at a time."""

    workflow = models.OneToOneField(Workflow, on_delete=models.CASCADE, primary_key=True, related_name="observed")
    backend = models.ForeignKey(Backend, on_delete=models.CASCADE, related_name="+", db_index=False)
    kind = models.TextField()
    namespace = models.TextField()
    name = models.TextField()
    uid = models.TextField()
    queue = models.TextField()
    pods = models.JSONField(default=dict)
    pod_names = models.JSONField(default=dict, db_default=Value({}, models.JSONField()))
    notes = models.JSONField(default=list)
    owner = models.TextField(blank=True, default="", db_default="")
    is_open = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["backend", "uid"], condition=Q(is_open=True), name="observed_object_once"),
        ]
        triggers = [NoTruncateTrigger("The table of observed work")]

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"
