from django.apps import AppConfig
from django.db.models.signals import post_migrate


class SchedulingConfig(AppConfig):
    name = "scheduling"
    verbose_name = "Scheduling"

    def ready(self) -> None:
        from pools.services.pending_work import pending_work
        from scheduling import receivers
        from scheduling.services.workflows.user_actions import cancel_pending_workflows

        pending_work.register(cancel_pending_workflows)
        post_migrate.connect(receivers.ensure_periodic_tasks_exist, sender=self)
