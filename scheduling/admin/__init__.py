"""The pages of workflows, queues and scheduling; importing this package registers them."""

from scheduling.admin import (
    admission_webhooks,
    background_jobs,
    cluster_sync,
    decisions,
    nodes,
    outcomes,
    scheduler_settings,
    workflows,
)
from scheduling.admin.imports import import_page
from scheduling.admin.reports import differences, history_replays, usage
