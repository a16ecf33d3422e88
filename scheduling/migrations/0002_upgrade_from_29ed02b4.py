"""The bridge for installations that the migrations before 0.1.0 made (docs/decisions.md, "Two initial migrations").

A new database has the tables of the initial migrations, and nothing is left to do. An installation of commit 29ed02b4
gets the tables, rows and triggers of today, in one transaction. One that has had all former migrations has them already.
Any other is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.db import migrations
from django.db.migrations.recorder import MigrationRecorder

_LAST_OF_29ED02B4 = {("pools", "0026_drain_deadline"), ("scheduling", "0032_sampled_waits")}
_FIRST_LATER = {"pools": "0027", "scheduling": "0033"}

EARLIER = {
    "pools": [
        "0001_squashed_0025_approval_notices",
        "0002_kubernetes_backends",
        "0003_cohorts",
        "0004_gpu_quota",
        "0005_ledger_generation",
        "0006_settings_move_generation",
        "0007_kept_offline",
        "0008_gpu_alerts_by_amount",
        "0009_field_words",
        "0010_people_limits",
        "0011_raw_writes_refused",
        "0012_configuration_entries",
        "0013_gpu_namespace_index",
        "0014_temporary_quota",
        "0015_sign_on",
        "0016_start_policy",
        "0017_client_login",
        "0018_owned_by_git",
        "0019_notices",
        "0020_notice_counts",
        "0021_saved_views",
        "0022_token_use",
        "0023_configuration_refused",
        "0024_approvals",
        "0025_approval_notices",
        "0026_drain_deadline",
        "0027_uncounted_amounts",
        "0028_secret_key_check",
        "0029_last_backup",
        "0030_node_taints",
        "0031_victims_of_a_backend",
        "0032_unlike_names_of_users",
        "0033_format_of_requested_changes",
        "0034_change_tokens",
        "0035_counter_of_live_work",
    ],
    "scheduling": [
        "0001_squashed_0029_usage_days",
        "0002_elastic_gangs",
        "0003_decisions",
        "0004_queue_guard",
        "0005_exit_actions",
        "0006_clusters",
        "0007_queue_sync",
        "0008_agent_lease",
        "0009_backend_rest",
        "0010_cleared_tries",
        "0011_observed_decisions",
        "0012_gpu_keeping",
        "0013_field_words",
        "0014_change_triggers",
        "0015_periodic_task_names",
        "0016_live_by_user",
        "0017_raw_writes_refused",
        "0018_webhook_installation",
        "0019_cluster_lease",
        "0020_usage_record",
        "0021_work_counters",
        "0022_start_reservation",
        "0023_owned_by_git",
        "0024_start_forecast",
        "0025_work_indexes",
        "0026_preemptions_audited",
        "0027_refused_file",
        "0028_history_replay",
        "0029_usage_days",
        "0030_request_ids",
        "0031_pool_usage",
        "0032_sampled_waits",
        "0033_promised_starts",
        "0034_node_notes",
        "0035_closed_queues",
        "0036_pods_gone",
        "0037_beat_lease",
        "0038_passed_over",
        "0039_change_tokens",
        "0040_one_request_a_transaction",
    ],
}
"""Those up to commit 3021fce7, after which each application had one initial migration for the first time."""

SINCE = {
    "pools": [
        "0002_inbox",
        "0003_degraded",
        "0004_drained_nodes",
        "0005_quiet_hours",
        "0006_flavors",
        "0007_shared_gpus",
        "0008_notice_kinds",
        "0009_quotas_by_flavor",
        "0010_flavor_usage",
        "0011_observed_clusters",
        "0012_own_moves",
        "0013_subpool_flavors_named",
        "0014_quota_by_flavor_remedy",
        "0015_queue_pools",
        "0016_removed_accounts",
    ],
    "scheduling": [
        "0002_from_29ed02b4",
        "0003_receipts",
        "0004_lost_counts",
        "0005_forecasts_stand",
        "0006_suspect_nodes",
        "0007_failed_tasks",
        "0008_cycle_order",
        "0009_words_of_schedulers",
        "0010_evicted",
        "0011_job_failures",
        "0012_task_flavors",
        "0013_usage_flavors",
        "0014_shown_effects",
        "0015_effects_not_judged",
        "0016_passed_flavors",
        "0017_observed_work",
        "0018_scheduler_differences",
        "0019_observed_facts",
        "0020_newest_differences",
        "0021_environments_not_audited",
        "0022_observed_owner",
    ],
}
"""Those after it, up to commit 70e03f34."""

FORMER = {app: [*EARLIER[app], *SINCE[app]] for app in EARLIER}
"""The names that older installations and their backups have recorded."""


def _upgrade(apps: Any, schema_editor: Any) -> None:
    recorded = set(MigrationRecorder(schema_editor.connection).applied_migrations())
    applied = recorded & _with_app(FORMER)
    if not applied or applied >= _with_app(SINCE):
        return
    later = {(app, name) for app, name in applied if name >= _FIRST_LATER[app] or name in SINCE[app]}
    if later or not applied >= _LAST_OF_29ED02B4:
        raise CommandError(
            "This database is older than commit 29ed02b4, or between it and commit 70e03f34. No table was changed: "
            "install commit 70e03f34, run its `osmo-admin manage migrate`, and then this version's."
        )
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(Path(__file__).with_name("from_29ed02b4.sql").read_text(encoding="utf-8"))
    for model in apps.get_models():
        for trigger in getattr(model._meta, "triggers", ()):
            schema_editor.execute(trigger.install_sql, params=None)


def _with_app(names: dict[str, list[str]]) -> set[tuple[str, str]]:
    return {(app, name) for app, of_app in names.items() for name in of_app}


class Migration(migrations.Migration):
    dependencies = [("pools", "0001_initial"), ("scheduling", "0001_initial")]

    operations = [migrations.RunPython(_upgrade, migrations.RunPython.noop)]
