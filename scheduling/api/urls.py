"""Addresses of the scheduling API."""

from __future__ import annotations

from django.urls import URLPattern, path

from scheduling.api import gpu_quotas, own_replay, simulation, usage, workflow_config
from scheduling.api.cluster import drains, nodes, overview, podgroups, pool_lists, queue_sync, reconcile, resources
from scheduling.api.work import (
    comparison,
    pending_queue,
    scheduler_events,
    search,
    submissions,
    tasks,
    workflow_texts,
    workflows,
)

urlpatterns: list[URLPattern] = [
    path("gpu_quota/rebuild", gpu_quotas.GpuRebuild.as_view()),
    path("pool_quota", pool_lists.PoolQuota.as_view()),
    path("resources", resources.ResourceList.as_view()),
    path("resources/<str:name>", resources.ResourceDetail.as_view()),
    path("configs/workflow", workflow_config.WorkflowConfigView.as_view()),
    path("pool/<str:pool>/workflow", submissions.WorkflowSubmission.as_view()),
    path("pool/<str:pool>/workflows", submissions.WorkflowBatchSubmission.as_view()),
    path("pool/<str:pool>/workflow/<str:workflow>/restart", submissions.WorkflowRestart.as_view()),
    path("workflow", workflows.WorkflowList.as_view()),
    path("workflow/<str:name>", workflows.WorkflowDetail.as_view()),
    path("workflow/<str:name>/spec", workflow_texts.WorkflowSpecText.as_view()),
    path("workflow/<str:name>/logs", workflow_texts.WorkflowLog.as_view()),
    path("workflow/<str:name>/error_logs", workflow_texts.WorkflowErrorLog.as_view()),
    path("workflow/<str:name>/events", workflow_texts.WorkflowEventLog.as_view()),
    path("workflow/<str:name>/compare/<str:other>", comparison.WorkflowComparison.as_view()),
    path("workflow/<str:name>/cancel", workflows.WorkflowCancel.as_view()),
    path("workflow/<str:name>/end", workflows.WorkflowEnd.as_view()),
    path("workflow/<str:name>/tag", workflows.WorkflowTags.as_view()),
    path("tag", workflows.TagList.as_view()),
    path("task", tasks.TaskList.as_view()),
    path("scheduler_events", scheduler_events.SchedulerEvents.as_view()),
    path("drains", drains.DrainList.as_view()),
    path("overview", overview.OverviewDetail.as_view()),
    path("search", search.Search.as_view()),
    path("usage", usage.Usage.as_view()),
    path("usage/trace", usage.UsageTrace.as_view()),
    path("queue", pending_queue.PendingQueueList.as_view()),
    path("replay", own_replay.OwnReplays.as_view()),
    path("replay/<uuid:replay>", own_replay.OwnReplay.as_view()),
    path("replay/<uuid:replay>/cancel", own_replay.OwnReplayCancel.as_view()),
    path("simulate", simulation.Simulation.as_view()),
    path("podgroup/validate", podgroups.PodGroupValidation.as_view()),
    path("podgroup/plan", podgroups.PodGroupPlan.as_view()),
    path("backend/<str:backend>/nodes", nodes.NodeMapDetail.as_view()),
    path("backend/<str:backend>/settle", reconcile.ReconcileRequest.as_view()),
    path("backend/<str:backend>/sync", queue_sync.QueueSyncStatus.as_view()),
    path("backend/<str:backend>/test", queue_sync.ConnectionTestRequest.as_view()),
]
