from django.apps import AppConfig
from django.db.models.signals import post_migrate


class SchedulingConfig(AppConfig):
    name = "scheduling"
    verbose_name = "Scheduling"

    def ready(self) -> None:
        from scheduling import receivers

        post_migrate.connect(receivers.ensure_periodic_tasks_exist, sender=self)
