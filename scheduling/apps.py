import atexit
from typing import TYPE_CHECKING

from django.apps import AppConfig
from django.db.models.signals import post_migrate

if TYPE_CHECKING:
    from scheduling.selectors.queue.admitted_specs import AdmittedSpecCache
    from scheduling.selectors.queue.pending_queue_cache import PendingQueueCache


class SchedulingConfig(AppConfig):
    """The scheduling app. It owns the caches of the process."""

    name = "scheduling"
    verbose_name = "Scheduling"
    pending_queues: "PendingQueueCache"
    admitted_specs: "AdmittedSpecCache"

    def ready(self) -> None:
        from pools.services.configuration.pending_work import pending_work
        from scheduling import receivers
        from scheduling.selectors.queue.admitted_specs import AdmittedSpecCache
        from scheduling.selectors.queue.pending_queue_cache import PendingQueueCache
        from scheduling.services.workflows.pending_work import WaitingWork

        self.pending_queues, self.admitted_specs = PendingQueueCache(), AdmittedSpecCache()
        atexit.register(self.pending_queues.close)
        pending_work.register(WaitingWork())
        post_migrate.connect(receivers.ensure_periodic_tasks_exist, sender=self)
