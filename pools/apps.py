from django.apps import AppConfig
from django.db.models.signals import post_migrate


class PoolsConfig(AppConfig):
    name = "pools"
    verbose_name = "Ledger"

    def ready(self) -> None:
        from pools.models.trigger_guard import install_trigger_guard

        post_migrate.connect(install_trigger_guard, sender=self)
