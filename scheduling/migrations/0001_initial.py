# Each model stands after those that its foreign keys name: a key that is added to a table later renders all models again.

import datetime
import django.contrib.postgres.functions
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.datetime
import pgtrigger.compiler
import pgtrigger.migrations
import pools.models.audit
import scheduling.domain.engine.reasons.liveness
import scheduling.domain.judgement.shown_effects
import scheduling.domain.priorities
import scheduling.domain.promised_starts
import scheduling.domain.statuses
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("pools", "0001_initial"),
        ("pools", "__first__"),
    ]

    operations = [
        migrations.CreateModel(
            name="BackendSchedulingState",
            fields=[
                (
                    "backend",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="pools.backend",
                    ),
                ),
                ("snapshot", models.TextField()),
                ("plan_token", models.TextField(db_default="", default="")),
                ("unfinished", models.BooleanField(db_default=False, default=False)),
                ("full_cycle_at", models.DateTimeField()),
                ("full_cycle_seconds", models.FloatField()),
                ("full_cycle_due", models.BooleanField(default=False)),
                ("waits_for_external", models.BooleanField(default=False)),
            ],
        ),
        migrations.CreateModel(
            name="Workflow",
            fields=[
                ("uuid", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("name", models.TextField(unique=True)),
                ("spec_name", models.TextField()),
                (
                    "priority",
                    models.TextField(
                        choices=[
                            (
                                scheduling.domain.priorities.Priority["HIGH"],
                                scheduling.domain.priorities.Priority["HIGH"],
                            ),
                            (
                                scheduling.domain.priorities.Priority["NORMAL"],
                                scheduling.domain.priorities.Priority["NORMAL"],
                            ),
                            (
                                scheduling.domain.priorities.Priority["LOW"],
                                scheduling.domain.priorities.Priority["LOW"],
                            ),
                        ],
                        default=scheduling.domain.priorities.Priority["NORMAL"],
                    ),
                ),
                (
                    "status",
                    models.TextField(
                        choices=[
                            (
                                scheduling.domain.statuses.WorkflowStatus["PENDING"],
                                scheduling.domain.statuses.WorkflowStatus["PENDING"],
                            ),
                            (
                                scheduling.domain.statuses.WorkflowStatus["RUNNING"],
                                scheduling.domain.statuses.WorkflowStatus["RUNNING"],
                            ),
                            (
                                scheduling.domain.statuses.WorkflowStatus["WAITING"],
                                scheduling.domain.statuses.WorkflowStatus["WAITING"],
                            ),
                            (
                                scheduling.domain.statuses.WorkflowStatus["COMPLETED"],
                                scheduling.domain.statuses.WorkflowStatus["COMPLETED"],
                            ),
                            (
                                scheduling.domain.statuses.WorkflowStatus["FAILED"],
                                scheduling.domain.statuses.WorkflowStatus["FAILED"],
                            ),
                            (
                                scheduling.domain.statuses.WorkflowStatus["FAILED_SUBMISSION"],
                                scheduling.domain.statuses.WorkflowStatus["FAILED_SUBMISSION"],
                            ),
                            (
                                scheduling.domain.statuses.WorkflowStatus["FAILED_SERVER_ERROR"],
                                scheduling.domain.statuses.WorkflowStatus["FAILED_SERVER_ERROR"],
                            ),
                            (
                                scheduling.domain.statuses.WorkflowStatus["FAILED_EXEC_TIMEOUT"],
                                scheduling.domain.statuses.WorkflowStatus["FAILED_EXEC_TIMEOUT"],
                            ),
                            (
                                scheduling.domain.statuses.WorkflowStatus["FAILED_QUEUE_TIMEOUT"],
                                scheduling.domain.statuses.WorkflowStatus["FAILED_QUEUE_TIMEOUT"],
                            ),
                            (
                                scheduling.domain.statuses.WorkflowStatus["FAILED_CANCELED"],
                                scheduling.domain.statuses.WorkflowStatus["FAILED_CANCELED"],
                            ),
                            (
                                scheduling.domain.statuses.WorkflowStatus["FAILED_BACKEND_ERROR"],
                                scheduling.domain.statuses.WorkflowStatus["FAILED_BACKEND_ERROR"],
                            ),
                            (
                                scheduling.domain.statuses.WorkflowStatus["FAILED_IMAGE_PULL"],
                                scheduling.domain.statuses.WorkflowStatus["FAILED_IMAGE_PULL"],
                            ),
                            (
                                scheduling.domain.statuses.WorkflowStatus["FAILED_EVICTED"],
                                scheduling.domain.statuses.WorkflowStatus["FAILED_EVICTED"],
                            ),
                            (
                                scheduling.domain.statuses.WorkflowStatus["FAILED_START_ERROR"],
                                scheduling.domain.statuses.WorkflowStatus["FAILED_START_ERROR"],
                            ),
                            (
                                scheduling.domain.statuses.WorkflowStatus["FAILED_START_TIMEOUT"],
                                scheduling.domain.statuses.WorkflowStatus["FAILED_START_TIMEOUT"],
                            ),
                            (
                                scheduling.domain.statuses.WorkflowStatus["FAILED_PREEMPTED"],
                                scheduling.domain.statuses.WorkflowStatus["FAILED_PREEMPTED"],
                            ),
                        ],
                        default=scheduling.domain.statuses.WorkflowStatus["PENDING"],
                    ),
                ),
                ("failure_message", models.TextField(blank=True)),
                ("submit_time", models.DateTimeField()),
                ("start_time", models.DateTimeField(null=True)),
                ("end_time", models.DateTimeField(null=True)),
                ("exec_timeout", models.DurationField(null=True)),
                ("queue_timeout", models.DurationField(null=True)),
                ("simulated_runtime", models.DurationField(null=True)),
                ("labels", models.JSONField(default=dict)),
                ("env_vars", models.JSONField(default=dict)),
                ("tags", models.JSONField(default=list)),
                ("spec", models.TextField()),
                ("template_spec", models.TextField(blank=True)),
                ("warnings", models.JSONField(default=list)),
                ("cancelled_by", models.TextField(blank=True)),
                ("app_uuid", models.TextField(blank=True)),
                ("app_version", models.TextField(blank=True)),
                (
                    "parent",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="restarts",
                        to="scheduling.workflow",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="workflows",
                        to="pools.pool",
                    ),
                ),
                (
                    "root_pool",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="pools.pool"
                    ),
                ),
                (
                    "submitted_by",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="workflows",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["-submit_time", "-name"],
            },
        ),
        migrations.CreateModel(
            name="Group",
            fields=[
                ("uuid", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("name", models.TextField()),
                ("position", models.PositiveIntegerField()),
                ("upstream", models.JSONField(default=list)),
                (
                    "status",
                    models.TextField(
                        choices=[
                            (
                                scheduling.domain.statuses.TaskStatus["SUBMITTING"],
                                scheduling.domain.statuses.TaskStatus["SUBMITTING"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["WAITING"],
                                scheduling.domain.statuses.TaskStatus["WAITING"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["PROCESSING"],
                                scheduling.domain.statuses.TaskStatus["PROCESSING"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["SCHEDULING"],
                                scheduling.domain.statuses.TaskStatus["SCHEDULING"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["INITIALIZING"],
                                scheduling.domain.statuses.TaskStatus["INITIALIZING"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["RUNNING"],
                                scheduling.domain.statuses.TaskStatus["RUNNING"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["COMPLETED"],
                                scheduling.domain.statuses.TaskStatus["COMPLETED"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["RESCHEDULED"],
                                scheduling.domain.statuses.TaskStatus["RESCHEDULED"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED"],
                                scheduling.domain.statuses.TaskStatus["FAILED"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_CANCELED"],
                                scheduling.domain.statuses.TaskStatus["FAILED_CANCELED"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_SERVER_ERROR"],
                                scheduling.domain.statuses.TaskStatus["FAILED_SERVER_ERROR"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_BACKEND_ERROR"],
                                scheduling.domain.statuses.TaskStatus["FAILED_BACKEND_ERROR"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_EXEC_TIMEOUT"],
                                scheduling.domain.statuses.TaskStatus["FAILED_EXEC_TIMEOUT"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_QUEUE_TIMEOUT"],
                                scheduling.domain.statuses.TaskStatus["FAILED_QUEUE_TIMEOUT"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_IMAGE_PULL"],
                                scheduling.domain.statuses.TaskStatus["FAILED_IMAGE_PULL"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_UPSTREAM"],
                                scheduling.domain.statuses.TaskStatus["FAILED_UPSTREAM"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_EVICTED"],
                                scheduling.domain.statuses.TaskStatus["FAILED_EVICTED"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_START_ERROR"],
                                scheduling.domain.statuses.TaskStatus["FAILED_START_ERROR"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_START_TIMEOUT"],
                                scheduling.domain.statuses.TaskStatus["FAILED_START_TIMEOUT"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_PREEMPTED"],
                                scheduling.domain.statuses.TaskStatus["FAILED_PREEMPTED"],
                            ),
                        ],
                        default=scheduling.domain.statuses.TaskStatus["SCHEDULING"],
                    ),
                ),
                ("gpus", models.PositiveIntegerField(default=0)),
                ("gang", models.JSONField(null=True)),
                ("failure_message", models.TextField(blank=True)),
                ("waiting_reason", models.JSONField(null=True)),
                ("passed_flavors", models.JSONField(db_default=models.Value([], models.JSONField()), default=list)),
                ("ready_at", models.DateTimeField(null=True)),
                ("start_time", models.DateTimeField(null=True)),
                ("end_time", models.DateTimeField(null=True)),
                ("ends_at", models.DateTimeField(null=True)),
                ("due_at", models.DateTimeField(null=True)),
                (
                    "workflow",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="groups",
                        to="scheduling.workflow",
                    ),
                ),
            ],
            options={
                "ordering": ["workflow", "position"],
            },
        ),
        migrations.CreateModel(
            name="JobFailureCount",
            fields=[
                ("task", models.TextField(primary_key=True, serialize=False)),
                ("count", models.PositiveBigIntegerField(default=0)),
                ("last", models.DateTimeField()),
                ("error", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="LateUsage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("since", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="LeafUsageDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("flavor", models.TextField(db_default="default", default="default")),
                ("backend_id", models.BigIntegerField()),
                ("leaf_id", models.BigIntegerField()),
                ("quota", models.BigIntegerField()),
                ("idle", models.BigIntegerField()),
                ("lent", models.BigIntegerField()),
                ("day", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="LeafUsageHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("flavor", models.TextField(db_default="default", default="default")),
                ("backend_id", models.BigIntegerField()),
                ("leaf_id", models.BigIntegerField()),
                ("quota", models.BigIntegerField()),
                ("idle", models.BigIntegerField()),
                ("lent", models.BigIntegerField()),
                ("hour", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="LostCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("cause", models.TextField()),
                ("count", models.PositiveBigIntegerField(default=0)),
                ("gpu_ms", models.PositiveBigIntegerField(default=0)),
                (
                    "pool",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="pools.pool"),
                ),
            ],
        ),
        migrations.CreateModel(
            name="NodeSpan",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("flavor", models.TextField(db_default="default", default="default")),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField(null=True)),
                ("node_id", models.BigIntegerField()),
                ("backend_id", models.BigIntegerField()),
                ("gpus", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="NodeState",
            fields=[
                (
                    "node",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="state",
                        serialize=False,
                        to="pools.node",
                    ),
                ),
                ("ready", models.BooleanField(default=True)),
                ("conditions", models.JSONField(default=list)),
                ("labels", models.JSONField(default=dict)),
                ("taints", models.JSONField(default=list)),
                ("notes", models.JSONField(db_default=[], default=list)),
                ("other_gpus", models.PositiveIntegerField(default=0)),
                ("other_cpu", models.PositiveIntegerField(default=0)),
                ("other_memory_bytes", models.PositiveBigIntegerField(default=0)),
                ("other_storage_bytes", models.PositiveBigIntegerField(default=0)),
                ("other_notes", models.JSONField(db_default=[], default=list)),
            ],
        ),
        migrations.CreateModel(
            name="OfflineSpan",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField(null=True)),
                ("backend_id", models.BigIntegerField()),
                ("node_id", models.BigIntegerField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="PoolUsageDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("flavor", models.TextField(db_default="default", default="default")),
                ("backend_id", models.BigIntegerField()),
                ("pool_id", models.BigIntegerField()),
                ("quota", models.BigIntegerField()),
                ("idle", models.BigIntegerField()),
                ("lent", models.BigIntegerField()),
                ("day", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="PoolUsageHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("flavor", models.TextField(db_default="default", default="default")),
                ("backend_id", models.BigIntegerField()),
                ("pool_id", models.BigIntegerField()),
                ("quota", models.BigIntegerField()),
                ("idle", models.BigIntegerField()),
                ("lent", models.BigIntegerField()),
                ("hour", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="PromiseCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("backend_id", models.BigIntegerField()),
                ("outcome", models.TextField()),
                ("count", models.PositiveBigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="PromisedStart",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("backend_id", models.BigIntegerField()),
                ("gang", models.TextField()),
                ("waits_since", models.DateTimeField()),
                ("made_at", models.DateTimeField()),
                ("latest_start", models.DateTimeField()),
                (
                    "outcome",
                    models.TextField(
                        choices=[
                            (
                                scheduling.domain.promised_starts.PromiseOutcome["OPEN"],
                                scheduling.domain.promised_starts.PromiseOutcome["OPEN"],
                            ),
                            (
                                scheduling.domain.promised_starts.PromiseOutcome["KEPT"],
                                scheduling.domain.promised_starts.PromiseOutcome["KEPT"],
                            ),
                            (
                                scheduling.domain.promised_starts.PromiseOutcome["BROKEN"],
                                scheduling.domain.promised_starts.PromiseOutcome["BROKEN"],
                            ),
                            (
                                scheduling.domain.promised_starts.PromiseOutcome["WITHDRAWN"],
                                scheduling.domain.promised_starts.PromiseOutcome["WITHDRAWN"],
                            ),
                        ],
                        default=scheduling.domain.promised_starts.PromiseOutcome["OPEN"],
                    ),
                ),
                (
                    "reason",
                    models.TextField(
                        blank=True,
                        choices=[
                            (
                                scheduling.domain.promised_starts.WithdrawalReason["ENDED"],
                                scheduling.domain.promised_starts.WithdrawalReason["ENDED"],
                            ),
                            (
                                scheduling.domain.promised_starts.WithdrawalReason["CHANGED"],
                                scheduling.domain.promised_starts.WithdrawalReason["CHANGED"],
                            ),
                            (
                                scheduling.domain.promised_starts.WithdrawalReason["NO_RESERVATION"],
                                scheduling.domain.promised_starts.WithdrawalReason["NO_RESERVATION"],
                            ),
                        ],
                        default="",
                    ),
                ),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="promised_starts",
                        to="scheduling.group",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="QueueDrift",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("queue", models.TextField()),
                ("field", models.TextField()),
                ("theirs", models.JSONField(null=True)),
                ("ours", models.JSONField(null=True)),
                ("author", models.TextField()),
                ("seen_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("reapplied_at", models.DateTimeField(null=True)),
                (
                    "backend",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="queue_drift", to="pools.backend"
                    ),
                ),
            ],
            options={
                "ordering": ["-seen_at", "-pk"],
            },
        ),
        migrations.CreateModel(
            name="QueueGuard",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "mode",
                    models.TextField(
                        choices=[
                            ("off", "off: allow everything"),
                            ("audit", "audit: allow, and record requests that enforce would refuse"),
                            ("enforce", "enforce: refuse"),
                        ],
                        default="audit",
                    ),
                ),
                ("identity", models.TextField(blank=True)),
                ("accounts", models.JSONField(blank=True, default=list)),
                ("strict_minimums", models.BooleanField(default=False)),
                ("mark_generation", models.PositiveIntegerField(default=1)),
                ("previous_mark_until", models.DateTimeField(null=True)),
                ("version", models.PositiveIntegerField(default=1)),
                (
                    "backend",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="guard", to="pools.backend"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="QueueSync",
            fields=[
                ("lease_holder", models.UUIDField(null=True)),
                ("lease_expires_at", models.DateTimeField(null=True)),
                (
                    "backend",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="queue_sync",
                        serialize=False,
                        to="pools.backend",
                    ),
                ),
                ("applied_generation", models.BigIntegerField(default=-1)),
                (
                    "synced",
                    models.TextField(
                        choices=[("True", "True"), ("False", "False"), ("Unknown", "Unknown")], default="Unknown"
                    ),
                ),
                ("reason", models.TextField(default="NeverTried")),
                ("message", models.TextField(default="The queues of this cluster were not synced yet.")),
                ("since", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("attempted_at", models.DateTimeField(null=True)),
                ("succeeded_at", models.DateTimeField(null=True)),
                ("retry_at", models.DateTimeField(null=True)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("objects_observed", models.PositiveIntegerField(default=0)),
                ("untouched", models.JSONField(default=list)),
                ("closed_queues", models.JSONField(db_default={}, default=dict)),
                ("connection_test", models.JSONField(null=True)),
                ("connection_test_requested_at", models.DateTimeField(null=True)),
                ("connection_tested_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="QuotaSpan",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("flavor", models.TextField(db_default="default", default="default")),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField(null=True)),
                ("pool_id", models.BigIntegerField()),
                ("parent_id", models.BigIntegerField(null=True)),
                ("backend_id", models.BigIntegerField(null=True)),
                ("quota", models.BigIntegerField(default=0)),
                ("is_unlimited", models.BooleanField(default=False)),
                ("is_draining", models.BooleanField(default=False)),
            ],
        ),
        migrations.CreateModel(
            name="Task",
            fields=[
                ("uuid", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("name", models.TextField()),
                ("retry_id", models.PositiveIntegerField(default=0)),
                ("position", models.PositiveIntegerField()),
                ("lead", models.BooleanField(default=False)),
                ("sub_group", models.TextField(blank=True, default="")),
                (
                    "status",
                    models.TextField(
                        choices=[
                            (
                                scheduling.domain.statuses.TaskStatus["SUBMITTING"],
                                scheduling.domain.statuses.TaskStatus["SUBMITTING"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["WAITING"],
                                scheduling.domain.statuses.TaskStatus["WAITING"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["PROCESSING"],
                                scheduling.domain.statuses.TaskStatus["PROCESSING"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["SCHEDULING"],
                                scheduling.domain.statuses.TaskStatus["SCHEDULING"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["INITIALIZING"],
                                scheduling.domain.statuses.TaskStatus["INITIALIZING"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["RUNNING"],
                                scheduling.domain.statuses.TaskStatus["RUNNING"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["COMPLETED"],
                                scheduling.domain.statuses.TaskStatus["COMPLETED"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["RESCHEDULED"],
                                scheduling.domain.statuses.TaskStatus["RESCHEDULED"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED"],
                                scheduling.domain.statuses.TaskStatus["FAILED"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_CANCELED"],
                                scheduling.domain.statuses.TaskStatus["FAILED_CANCELED"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_SERVER_ERROR"],
                                scheduling.domain.statuses.TaskStatus["FAILED_SERVER_ERROR"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_BACKEND_ERROR"],
                                scheduling.domain.statuses.TaskStatus["FAILED_BACKEND_ERROR"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_EXEC_TIMEOUT"],
                                scheduling.domain.statuses.TaskStatus["FAILED_EXEC_TIMEOUT"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_QUEUE_TIMEOUT"],
                                scheduling.domain.statuses.TaskStatus["FAILED_QUEUE_TIMEOUT"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_IMAGE_PULL"],
                                scheduling.domain.statuses.TaskStatus["FAILED_IMAGE_PULL"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_UPSTREAM"],
                                scheduling.domain.statuses.TaskStatus["FAILED_UPSTREAM"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_EVICTED"],
                                scheduling.domain.statuses.TaskStatus["FAILED_EVICTED"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_START_ERROR"],
                                scheduling.domain.statuses.TaskStatus["FAILED_START_ERROR"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_START_TIMEOUT"],
                                scheduling.domain.statuses.TaskStatus["FAILED_START_TIMEOUT"],
                            ),
                            (
                                scheduling.domain.statuses.TaskStatus["FAILED_PREEMPTED"],
                                scheduling.domain.statuses.TaskStatus["FAILED_PREEMPTED"],
                            ),
                        ],
                        default=scheduling.domain.statuses.TaskStatus["SCHEDULING"],
                    ),
                ),
                ("gpu_count", models.PositiveIntegerField(default=0)),
                ("cpu_count", models.PositiveIntegerField(default=0)),
                ("memory_bytes", models.PositiveBigIntegerField(default=0)),
                ("storage_bytes", models.PositiveBigIntegerField(default=0)),
                ("platform", models.TextField(default="default")),
                ("nodes_excluded", models.JSONField(default=list)),
                ("gpu_flavors", models.JSONField(db_default=models.Value([], models.JSONField()), default=list)),
                ("flavor", models.TextField(blank=True, db_default="", default="")),
                ("exit_actions", models.JSONField(default=dict)),
                ("node_name", models.TextField(blank=True)),
                ("pod_ip", models.TextField(blank=True, default="")),
                ("admitted_at", models.DateTimeField(null=True)),
                ("dispatched_at", models.DateTimeField(null=True)),
                ("pod_gone_at", models.DateTimeField(null=True)),
                ("start_time", models.DateTimeField(null=True)),
                ("end_time", models.DateTimeField(null=True)),
                ("exit_code", models.IntegerField(null=True)),
                ("failure_message", models.TextField(blank=True)),
                (
                    "group",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tasks",
                        to="scheduling.group",
                    ),
                ),
            ],
            options={
                "ordering": ["group", "position", "retry_id"],
            },
        ),
        migrations.CreateModel(
            name="RefusedFile",
            fields=[
                ("source", models.TextField(primary_key=True, serialize=False)),
                ("path", models.TextField()),
                ("digest", models.CharField(max_length=64)),
                ("faults", models.PositiveIntegerField()),
                ("message", models.TextField()),
                ("refused_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "ordering": ["source"],
            },
        ),
        migrations.CreateModel(
            name="SchedulerDifference",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("time", models.DateTimeField()),
                (
                    "kind",
                    models.TextField(
                        choices=[("started", "started"), ("preempted", "preempted"), ("left_waiting", "left waiting")]
                    ),
                ),
                ("gpus", models.PositiveIntegerField()),
                ("rule", models.TextField(blank=True)),
                ("message", models.TextField()),
                ("instead", models.JSONField(default=list)),
                (
                    "backend",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="pools.backend",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="pools.pool"
                    ),
                ),
                (
                    "workflow",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="differences",
                        to="scheduling.workflow",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="SchedulingCycle",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("time", models.DateTimeField()),
                ("judged_at", models.DateTimeField()),
                ("snapshot", models.TextField(null=True)),
                ("new_since", models.TextField(null=True)),
                ("units", models.PositiveIntegerField()),
                ("reservations", models.JSONField(default=list)),
                (
                    "backend",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="pools.backend",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ShownEffect",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("backend_id", models.BigIntegerField()),
                ("user_id", models.BigIntegerField(null=True)),
                ("title", models.TextField()),
                ("shown_at", models.DateTimeField()),
                ("made_at", models.DateTimeField()),
                ("clock", models.TextField(blank=True, default="")),
                ("tokens", models.JSONField()),
                ("lost", models.JSONField()),
                ("started", models.JSONField()),
                ("found_lost", models.JSONField(null=True)),
                ("found_started", models.JSONField(null=True)),
                (
                    "outcome",
                    models.TextField(
                        choices=[
                            (
                                scheduling.domain.promised_starts.PromiseOutcome["OPEN"],
                                scheduling.domain.promised_starts.PromiseOutcome["OPEN"],
                            ),
                            (
                                scheduling.domain.promised_starts.PromiseOutcome["KEPT"],
                                scheduling.domain.promised_starts.PromiseOutcome["KEPT"],
                            ),
                            (
                                scheduling.domain.promised_starts.PromiseOutcome["BROKEN"],
                                scheduling.domain.promised_starts.PromiseOutcome["BROKEN"],
                            ),
                            (
                                scheduling.domain.promised_starts.PromiseOutcome["WITHDRAWN"],
                                scheduling.domain.promised_starts.PromiseOutcome["WITHDRAWN"],
                            ),
                        ],
                        default=scheduling.domain.promised_starts.PromiseOutcome["OPEN"],
                    ),
                ),
                (
                    "reason",
                    models.TextField(
                        blank=True,
                        choices=[
                            (
                                scheduling.domain.judgement.shown_effects.EffectWithdrawal["CHANGED"],
                                scheduling.domain.judgement.shown_effects.EffectWithdrawal["CHANGED"],
                            ),
                            (
                                scheduling.domain.judgement.shown_effects.EffectWithdrawal["TIME"],
                                scheduling.domain.judgement.shown_effects.EffectWithdrawal["TIME"],
                            ),
                            (
                                scheduling.domain.judgement.shown_effects.EffectWithdrawal["NOT_JUDGED"],
                                scheduling.domain.judgement.shown_effects.EffectWithdrawal["NOT_JUDGED"],
                            ),
                        ],
                        default="",
                    ),
                ),
                ("ended_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="StartCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("priority", models.TextField()),
                ("bucket", models.PositiveSmallIntegerField()),
                ("count", models.PositiveBigIntegerField(default=0)),
                ("seconds", models.FloatField(default=0)),
                (
                    "pool",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="pools.pool"),
                ),
            ],
        ),
        migrations.CreateModel(
            name="StartForecast",
            fields=[
                ("group_id", models.UUIDField(primary_key=True, serialize=False)),
                ("backend_id", models.BigIntegerField()),
                ("made_at", models.DateTimeField()),
                ("p10", models.DateTimeField(null=True)),
                ("p50", models.DateTimeField(null=True)),
                ("p90", models.DateTimeField(null=True)),
                ("samples", models.PositiveIntegerField()),
                ("never", models.TextField(blank=True)),
                ("facts_key", models.TextField(blank=True, default="")),
                ("like_scored", models.PositiveSmallIntegerField(default=0)),
                ("like_in_time", models.PositiveSmallIntegerField(default=0)),
                ("gpus_before", models.BigIntegerField(null=True)),
                ("sampled_waits", models.JSONField(null=True)),
                ("first_made_at", models.DateTimeField(null=True)),
                ("first_middle", models.FloatField(null=True)),
                ("first_spread", models.FloatField(null=True)),
                ("first_waits", models.JSONField(null=True)),
                ("first_leaf_id", models.BigIntegerField(null=True)),
                ("first_gpus", models.PositiveIntegerField(null=True)),
                ("first_gpus_before", models.BigIntegerField(null=True)),
                ("wait", models.FloatField(null=True)),
                ("scored_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="SuspectNode",
            fields=[
                (
                    "node",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="suspect",
                        serialize=False,
                        to="pools.node",
                    ),
                ),
                ("failures", models.PositiveIntegerField()),
                ("since", models.DateTimeField()),
                ("cleared_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="UnmarkedReviews",
            fields=[
                (
                    "backend",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="unmarked_reviews",
                        serialize=False,
                        to="pools.backend",
                    ),
                ),
                ("attempts", models.PositiveBigIntegerField(default=0)),
                ("first_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("last_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.CreateModel(
            name="UsageProgress",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("closed_until", models.DateTimeField(null=True)),
                ("pending_until", models.DateTimeField(null=True)),
                ("horizon", pools.models.audit.TransactionIdField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="WaitCauseChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("group_id", models.UUIDField()),
                ("since", models.DateTimeField()),
                ("cause", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="WaitSpan",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField(null=True)),
                ("group_id", models.UUIDField()),
                ("workflow_id", models.UUIDField()),
                ("gpus", models.BigIntegerField()),
                ("started", models.BooleanField()),
            ],
        ),
        migrations.CreateModel(
            name="WebhookInstallation",
            fields=[
                (
                    "backend",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="webhook_installation",
                        serialize=False,
                        to="pools.backend",
                    ),
                ),
                ("url", models.TextField(blank=True)),
                ("service", models.TextField(blank=True)),
                ("service_port", models.PositiveIntegerField(default=443)),
                ("authorities", models.TextField(blank=True)),
                ("fails_closed", models.BooleanField(null=True)),
                ("namespace_selector", models.JSONField(null=True)),
                ("removed_at", models.DateTimeField(null=True)),
                ("problem", models.TextField(blank=True)),
                ("checked_at", models.DateTimeField(null=True)),
                ("repair", models.TextField(blank=True)),
                ("repairs", models.PositiveIntegerField(default=0)),
                ("repaired_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="WorkflowConfig",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("subpool_drain_interval_minutes", models.PositiveIntegerField(default=15)),
                ("max_retry_per_task", models.PositiveIntegerField(default=0)),
                ("version", models.PositiveIntegerField(default=1)),
            ],
            options={
                "verbose_name": "scheduler settings",
                "verbose_name_plural": "scheduler settings",
            },
        ),
        migrations.CreateModel(
            name="WorkflowName",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False)),
                ("last_number", models.PositiveIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="WorkUsageDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("flavor", models.TextField(db_default="default", default="default")),
                ("backend_id", models.BigIntegerField()),
                ("leaf_id", models.BigIntegerField()),
                ("user_id", models.BigIntegerField()),
                ("priority", models.TextField()),
                ("guaranteed", models.BigIntegerField(default=0)),
                ("low_inside", models.BigIntegerField(default=0)),
                ("over_quota", models.BigIntegerField(default=0)),
                ("borrowed", models.BigIntegerField(default=0)),
                ("waiting_own_quota", models.BigIntegerField(default=0)),
                ("waiting_limit", models.BigIntegerField(default=0)),
                ("waiting_room", models.BigIntegerField(default=0)),
                ("waiting_offline", models.BigIntegerField(default=0)),
                ("waiting_order", models.BigIntegerField(default=0)),
                ("workflows", models.BigIntegerField(default=0)),
                ("preemptions", models.BigIntegerField(default=0)),
                ("day", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="WorkUsageHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("flavor", models.TextField(db_default="default", default="default")),
                ("backend_id", models.BigIntegerField()),
                ("leaf_id", models.BigIntegerField()),
                ("user_id", models.BigIntegerField()),
                ("priority", models.TextField()),
                ("guaranteed", models.BigIntegerField(default=0)),
                ("low_inside", models.BigIntegerField(default=0)),
                ("over_quota", models.BigIntegerField(default=0)),
                ("borrowed", models.BigIntegerField(default=0)),
                ("waiting_own_quota", models.BigIntegerField(default=0)),
                ("waiting_limit", models.BigIntegerField(default=0)),
                ("waiting_room", models.BigIntegerField(default=0)),
                ("waiting_offline", models.BigIntegerField(default=0)),
                ("waiting_order", models.BigIntegerField(default=0)),
                ("workflows", models.BigIntegerField(default=0)),
                ("preemptions", models.BigIntegerField(default=0)),
                ("hour", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="ObservedReservation",
            fields=[],
            options={
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("pools.reservation",),
        ),
        migrations.CreateModel(
            name="RecordedChange",
            fields=[],
            options={
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("pools.auditentry",),
        ),
        migrations.CreateModel(
            name="BackendUsageDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("flavor", models.TextField(db_default="default", default="default")),
                ("backend_id", models.BigIntegerField()),
                ("capacity", models.BigIntegerField()),
                ("offline", models.BigIntegerField()),
                ("unallocated", models.BigIntegerField()),
                ("day", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["day"], name="backend_usage_day")],
            },
        ),
        migrations.CreateModel(
            name="BackendUsageHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("flavor", models.TextField(db_default="default", default="default")),
                ("backend_id", models.BigIntegerField()),
                ("capacity", models.BigIntegerField()),
                ("offline", models.BigIntegerField()),
                ("unallocated", models.BigIntegerField()),
                ("hour", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["hour"], name="backend_usage_hour")],
            },
        ),
        migrations.CreateModel(
            name="BeatLease",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("lease_holder", models.UUIDField(null=True)),
                ("lease_expires_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("lease_expires_at__isnull", True), ("lease_holder__isnull", True)),
                            models.Q(("lease_expires_at__isnull", False), ("lease_holder__isnull", False)),
                            _connector="OR",
                        ),
                        name="beat_lease_is_complete",
                        violation_error_message="A lease has a holder and an expiry.",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Bypass",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.TextField()),
                ("namespace", models.TextField(blank=True)),
                ("username", models.TextField(blank=True)),
                ("code", models.TextField()),
                ("object_name", models.TextField(blank=True)),
                ("message", models.TextField()),
                ("attempts", models.PositiveBigIntegerField(default=1)),
                ("refused", models.PositiveBigIntegerField(default=0)),
                ("first_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("last_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "backend",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="bypasses", to="pools.backend"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "bypasses",
                "ordering": ["-last_at", "-pk"],
            },
        ),
        migrations.CreateModel(
            name="ClusterState",
            fields=[
                ("lease_holder", models.UUIDField(null=True)),
                ("lease_expires_at", models.DateTimeField(null=True)),
                (
                    "backend",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="cluster_state",
                        serialize=False,
                        to="pools.backend",
                    ),
                ),
                ("identity", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("heartbeat_at", models.DateTimeField(null=True)),
                ("error", models.TextField(blank=True)),
                ("cluster_lease", models.TextField(blank=True)),
                ("cluster_lease_message", models.TextField(blank=True)),
                ("cluster_lease_since", models.DateTimeField(null=True)),
                ("unassigned", models.JSONField(db_default=[], default=list)),
                ("unread", models.JSONField(db_default=[], default=list)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("lease_expires_at__isnull", True), ("lease_holder__isnull", True)),
                            models.Q(("lease_expires_at__isnull", False), ("lease_holder__isnull", False)),
                            _connector="OR",
                        ),
                        name="agent_lease_is_complete",
                        violation_error_message="A lease has a holder and an expiry.",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="DecisionCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("action", models.TextField()),
                ("count", models.PositiveBigIntegerField(default=0)),
                ("gpus", models.PositiveBigIntegerField(default=0)),
                (
                    "pool",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="pools.pool"),
                ),
            ],
        ),
        migrations.CreateModel(
            name="GpuControllerLease",
            fields=[
                ("lease_holder", models.UUIDField(null=True)),
                ("lease_expires_at", models.DateTimeField(null=True)),
                (
                    "backend",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="gpu_controller_lease",
                        serialize=False,
                        to="pools.backend",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("lease_expires_at__isnull", True), ("lease_holder__isnull", True)),
                            models.Q(("lease_expires_at__isnull", False), ("lease_holder__isnull", False)),
                            _connector="OR",
                        ),
                        name="gpu_controller_lease_is_complete",
                        violation_error_message="A lease has a holder and an expiry.",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="StartReservation",
            fields=[
                (
                    "group",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="start_reservation",
                        serialize=False,
                        to="scheduling.group",
                    ),
                ),
                ("since", models.DateTimeField()),
                ("nodes", models.JSONField(null=True)),
                ("placed_at", models.DateTimeField(null=True)),
                (
                    "backend",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="pools.backend"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="StuckGroup",
            fields=[
                (
                    "group",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="scheduling.group",
                    ),
                ),
                ("gang", models.TextField()),
                (
                    "kind",
                    models.TextField(
                        choices=[
                            (
                                scheduling.domain.engine.reasons.liveness.StuckKind["IDLE_CLUSTER"],
                                scheduling.domain.engine.reasons.liveness.StuckKind["IDLE_CLUSTER"],
                            ),
                            (
                                scheduling.domain.engine.reasons.liveness.StuckKind["BEHIND_LOW_WORK"],
                                scheduling.domain.engine.reasons.liveness.StuckKind["BEHIND_LOW_WORK"],
                            ),
                            (
                                scheduling.domain.engine.reasons.liveness.StuckKind["BEHIND_LATER_WORK"],
                                scheduling.domain.engine.reasons.liveness.StuckKind["BEHIND_LATER_WORK"],
                            ),
                        ]
                    ),
                ),
                ("since", models.DateTimeField()),
                (
                    "backend",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="pools.backend"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Decision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("time", models.DateTimeField()),
                (
                    "action",
                    models.TextField(
                        choices=[
                            ("start", "Start"),
                            ("move", "Move"),
                            ("reclaim", "Reclaim"),
                            ("preempt", "Preempt"),
                            ("give_up", "Give Up"),
                        ]
                    ),
                ),
                ("tasks", models.JSONField(default=list)),
                ("nodes", models.JSONField(default=list)),
                ("gpus", models.PositiveIntegerField(default=0)),
                ("message", models.TextField()),
                ("message_without_beneficiary", models.TextField()),
                (
                    "backend",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="pools.backend",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="pools.pool"
                    ),
                ),
                (
                    "root_pool",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="pools.pool"
                    ),
                ),
                (
                    "group",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.group",
                    ),
                ),
                (
                    "for_workflow",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.workflow",
                    ),
                ),
                (
                    "workflow",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="decisions",
                        to="scheduling.workflow",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="HistoryReplay",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        db_default=django.contrib.postgres.functions.RandomUUID(),
                        default=uuid.uuid4,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("backend_id", models.BigIntegerField()),
                ("question", models.JSONField()),
                ("reads_all", models.BooleanField()),
                ("pools", models.JSONField()),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("WAITING", "Waiting"),
                            ("RUNNING", "Running"),
                            ("COMPLETED", "Completed"),
                            ("FAILED", "Failed"),
                            ("CANCELED", "Canceled"),
                        ],
                        default="WAITING",
                        max_length=10,
                    ),
                ),
                ("progress", models.FloatField(default=0)),
                ("tries", models.PositiveSmallIntegerField(default=0)),
                ("answer", models.JSONField(null=True)),
                ("refusal", models.JSONField(null=True)),
                ("requested_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("started_at", models.DateTimeField(null=True)),
                ("beat_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="replays", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "ordering": ["-requested_at", "-pk"],
            },
        ),
        migrations.CreateModel(
            name="Interruption",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("time", models.DateTimeField()),
                ("cause", models.TextField()),
                ("by_user", models.TextField(blank=True, default="")),
                ("note", models.TextField(blank=True, default="")),
                ("numbers", models.JSONField(default=dict)),
                ("spared", models.JSONField(default=list)),
                ("has_more_spared", models.BooleanField(default=False)),
                (
                    "backend",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="pools.backend",
                    ),
                ),
                (
                    "group",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.group",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="pools.pool"
                    ),
                ),
                (
                    "root_pool",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="pools.pool"
                    ),
                ),
                (
                    "for_workflow",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.workflow",
                    ),
                ),
                (
                    "workflow",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="interruptions",
                        to="scheduling.workflow",
                    ),
                ),
            ],
            options={
                "ordering": ["-time", "-id"],
            },
        ),
        migrations.CreateModel(
            name="RecordedNodeState",
            fields=[],
            options={
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("scheduling.nodestate",),
        ),
        migrations.CreateModel(
            name="ObservedWork",
            fields=[
                (
                    "workflow",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="observed",
                        serialize=False,
                        to="scheduling.workflow",
                    ),
                ),
                ("kind", models.TextField()),
                ("namespace", models.TextField()),
                ("name", models.TextField()),
                ("uid", models.TextField()),
                ("queue", models.TextField()),
                ("pods", models.JSONField(default=dict)),
                ("pod_names", models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict)),
                ("notes", models.JSONField(default=list)),
                ("owner", models.TextField(blank=True, db_default="", default="")),
                ("is_open", models.BooleanField(default=True)),
                (
                    "backend",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="pools.backend",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Receipt",
            fields=[
                (
                    "task",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="receipt",
                        serialize=False,
                        to="scheduling.task",
                    ),
                ),
                ("gpus", models.PositiveIntegerField(default=0)),
                ("lost_since", models.DateTimeField()),
                ("lost_gpu_ms", models.PositiveBigIntegerField(default=0)),
                (
                    "interruption",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="receipts",
                        to="scheduling.interruption",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ReceiptedTask",
            fields=[],
            options={
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("scheduling.task",),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="jobfailurecount",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of failed jobs cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="bfc9312ca12513808c1e96913358a1bf6ffc0bfe",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_be6a0",
                    table="scheduling_jobfailurecount",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="leafusageday",
            index=models.Index(fields=["day", "leaf_id"], name="leaf_usage_day"),
        ),
        migrations.AddIndex(
            model_name="leafusagehour",
            index=models.Index(fields=["hour", "leaf_id"], name="leaf_usage_hour"),
        ),
        migrations.AddIndex(
            model_name="nodespan",
            index=models.Index(condition=models.Q(("until__isnull", True)), fields=["node_id"], name="node_span_open"),
        ),
        migrations.AddIndex(
            model_name="nodespan",
            index=models.Index(fields=["backend_id", "since"], name="node_span_of_backend"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="nodestate",
            trigger=pgtrigger.compiler.Trigger(
                name="move_tokens",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN RETURN NULL; END IF;\n        FOR concerned IN\n            SELECT id, 'backend/' || id AS subject FROM pools_backend WHERE id IN (SELECT backend_id FROM pools_node WHERE id IN (NEW.node_id, OLD.node_id)) ORDER BY id\n        LOOP\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = concerned.subject AND kind = 'work'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES (concerned.subject, 'work', 1, gen_random_uuid());\n        END IF;\n        END LOOP; RETURN NULL;",
                    hash="66ba0ec6d6d44cef06d7c69ab0aca6ec154b747b",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_move_tokens_8a4b9",
                    table="scheduling_nodestate",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="offlinespan",
            index=models.Index(fields=["backend_id", "since"], name="offline_span_of_backend"),
        ),
        migrations.AddIndex(
            model_name="poolusageday",
            index=models.Index(fields=["day", "pool_id"], name="pool_usage_day"),
        ),
        migrations.AddIndex(
            model_name="poolusagehour",
            index=models.Index(fields=["hour", "pool_id"], name="pool_usage_hour"),
        ),
        migrations.AddConstraint(
            model_name="promisecount",
            constraint=models.UniqueConstraint(fields=("backend_id", "outcome"), name="promise_count_once"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="promisecount",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of promise counts cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="6ca281d862f64a90f5605ea88701b466a550ff88",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_81dfb",
                    table="scheduling_promisecount",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="queuesync",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("lease_expires_at__isnull", True), ("lease_holder__isnull", True)),
                    models.Q(("lease_expires_at__isnull", False), ("lease_holder__isnull", False)),
                    _connector="OR",
                ),
                name="sync_lease_is_complete",
                violation_error_message="A lease has a holder and an expiry.",
            ),
        ),
        migrations.AddIndex(
            model_name="quotaspan",
            index=models.Index(fields=["pool_id", "since"], name="quota_span_of_pool"),
        ),
        migrations.AddIndex(
            model_name="quotaspan",
            index=models.Index(condition=models.Q(("until__isnull", True)), fields=["pool_id"], name="quota_span_open"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="refusedfile",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['refused_at']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['refused_at']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'DELETE' THEN 'config_file.accepted' ELSE 'config_file.refused' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'config_file/' || COALESCE(NEW.path, OLD.path), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="ea32be678c6c8c21c63d8d73c73ff3b970d683c7",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_ec7b4",
                    table="scheduling_refusedfile",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="refusedfile",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of refused files cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="34a23c9824228ad90557d6f550c0824687726ca3",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_23ff8",
                    table="scheduling_refusedfile",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="showneffect",
            index=models.Index(
                condition=models.Q(("outcome", scheduling.domain.promised_starts.PromiseOutcome["OPEN"])),
                fields=["backend_id"],
                name="effect_open",
            ),
        ),
        migrations.AddIndex(
            model_name="showneffect",
            index=models.Index(fields=["ended_at"], name="effect_ended"),
        ),
        migrations.AddConstraint(
            model_name="showneffect",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("ended_at__isnull", True),
                        ("found_lost__isnull", True),
                        ("outcome", scheduling.domain.promised_starts.PromiseOutcome["OPEN"]),
                        ("reason", ""),
                    ),
                    models.Q(
                        ("ended_at__gte", models.F("made_at")),
                        ("found_lost", models.F("lost")),
                        ("found_started", models.F("started")),
                        ("outcome", scheduling.domain.promised_starts.PromiseOutcome["KEPT"]),
                        ("reason", ""),
                    ),
                    models.Q(
                        ("ended_at__gte", models.F("made_at")),
                        ("outcome", scheduling.domain.promised_starts.PromiseOutcome["BROKEN"]),
                        ("reason", ""),
                        ("found_lost__isnull", False),
                        ("found_started__isnull", False),
                        models.Q(
                            ("found_lost", models.F("lost")), ("found_started", models.F("started")), _negated=True
                        ),
                    ),
                    models.Q(
                        ("ended_at__gte", models.F("made_at")),
                        ("outcome", scheduling.domain.promised_starts.PromiseOutcome["WITHDRAWN"]),
                        (
                            "reason__in",
                            [
                                scheduling.domain.judgement.shown_effects.EffectWithdrawal["CHANGED"],
                                scheduling.domain.judgement.shown_effects.EffectWithdrawal["TIME"],
                                scheduling.domain.judgement.shown_effects.EffectWithdrawal["NOT_JUDGED"],
                            ],
                        ),
                    ),
                    _connector="OR",
                ),
                name="effect_ends_truly",
                violation_error_message="A shown effect is open without an end, kept if the same happened, broken if not, or withdrawn for a reason.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="showneffect",
            trigger=pgtrigger.compiler.Trigger(
                name="effect_stands",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        IF TG_OP = 'DELETE' THEN\n            IF COALESCE(OLD.ended_at, OLD.made_at) >= now() - interval '1 day' THEN\n                RAISE EXCEPTION 'A shown effect is history: it is not deleted while it is open or recent.' USING ERRCODE = 'check_violation', CONSTRAINT = 'effect_stands', TABLE = TG_TABLE_NAME;\n            END IF;\n            RETURN OLD;\n        END IF;\n        IF OLD.outcome <> 'open'\n            OR (NEW.id, NEW.backend_id, NEW.user_id, NEW.title, NEW.shown_at, NEW.made_at, NEW.clock, NEW.tokens, NEW.lost, NEW.started)\n            IS DISTINCT FROM (OLD.id, OLD.backend_id, OLD.user_id, OLD.title, OLD.shown_at, OLD.made_at, OLD.clock, OLD.tokens, OLD.lost, OLD.started) THEN\n            RAISE EXCEPTION 'What a preview showed, and what became of it, stays as it is.' USING ERRCODE = 'check_violation', CONSTRAINT = 'effect_stands', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NEW;\n    ",
                    hash="4bf9e128215f61ead27f266a74e53c30fc44acfd",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_effect_stands_d9e24",
                    table="scheduling_showneffect",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="showneffect",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of shown effects cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="ac1f06a9c271ae8cad3d6c0f29ebe66f97792cbe",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_7c5b7",
                    table="scheduling_showneffect",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="startforecast",
            index=models.Index(fields=["scored_at"], name="start_forecast_scored"),
        ),
        migrations.AddIndex(
            model_name="startforecast",
            index=models.Index(
                condition=models.Q(("scored_at__isnull", True)), fields=["backend_id"], name="start_forecast_open"
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="startforecast",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of start forecasts cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="e6186c5104476c559eb15236a248b40e88cae4d0",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_7bc34",
                    table="scheduling_startforecast",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="suspectnode",
            constraint=models.CheckConstraint(
                condition=models.Q(("failures__gte", 2)),
                name="suspect_after_several",
                violation_error_message="One failure makes no node suspect.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="suspectnode",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD); END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW); END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE WHEN NEW.cleared_at IS NULL THEN 'node.suspected' ELSE 'node.cleared' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'suspicion/' || (SELECT name FROM pools_node WHERE id = NEW.node_id), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="34c10a58bb45fc799ca3b49d657e3cd94136deb8",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_audit_ad787",
                    table="scheduling_suspectnode",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="suspectnode",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of suspect nodes cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="eb44eec82e052707ce8605618aeb2c535337abe0",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_58768",
                    table="scheduling_suspectnode",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="usageprogress",
            constraint=models.CheckConstraint(
                condition=models.Q(("id", 1)),
                name="one_usage_progress",
                violation_error_message="There is one record of use.",
            ),
        ),
        migrations.AddIndex(
            model_name="waitcausechange",
            index=models.Index(fields=["group_id", "since"], name="wait_cause_of_group"),
        ),
        migrations.AddIndex(
            model_name="waitcausechange",
            index=models.Index(fields=["since"], name="wait_cause_since"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="waitcausechange",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of causes of waiting cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="50b076c587649407f6b0f2fcb2c6b2c70bff2f49",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_9336e",
                    table="scheduling_waitcausechange",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="waitspan",
            index=models.Index(fields=["until"], name="wait_span_ended"),
        ),
        migrations.AddIndex(
            model_name="waitspan",
            index=models.Index(fields=["workflow_id"], name="wait_span_of_workflow"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="waitspan",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n                    IF TG_OP = 'DELETE' AND OLD.until < now() - interval '1 day' THEN\n                        RETURN OLD;\n                    END IF;\n                    RAISE EXCEPTION 'Waits are history: no change, and no deletion while recent.' USING ERRCODE = 'check_violation', CONSTRAINT = 'append_only', TABLE = TG_TABLE_NAME;\n                ",
                    hash="72116dac9da5c50c9e4a528622d206d843e58f2b",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_ad72c",
                    table="scheduling_waitspan",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="waitspan",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of waits cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="ee373c123d6779e6d29c2af88e2e372db1ef37fb",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_f6de0",
                    table="scheduling_waitspan",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="waitspan",
            trigger=pgtrigger.compiler.Trigger(
                name="count_start",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (NEW.started)",
                    declare="DECLARE waited double precision;",
                    func="\n        waited := extract(epoch FROM NEW.until - NEW.since);\n        INSERT INTO scheduling_startcount AS kept (pool_id, priority, bucket, count, seconds)\n            SELECT work.pool_id, work.priority,\n                (SELECT count(*) FROM unnest(ARRAY[1, 5, 15, 60, 300, 900, 3600, 14400, 43200, 86400, 259200, 604800]) AS bound WHERE bound < waited), 1, waited\n            FROM scheduling_workflow work WHERE work.uuid = NEW.workflow_id\n            ON CONFLICT (pool_id, priority, bucket)\n            DO UPDATE SET count = kept.count + 1, seconds = kept.seconds + excluded.seconds;\n        RETURN NULL;\n    ",
                    hash="aca288cc5fd8d5346d86b3d53018ff412fe3aaa4",
                    operation="INSERT",
                    pgid="pgtrigger_count_start_5d09b",
                    table="scheduling_waitspan",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="webhookinstallation",
            constraint=models.CheckConstraint(
                condition=models.Q(("url", ""), ("service", ""), _connector="XOR"),
                name="webhook_has_one_address",
                violation_error_message="The webhooks of a cluster have a URL or a Service as their address.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="webhookinstallation",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['problem', 'checked_at']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['problem', 'checked_at']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'webhook.installed' WHEN 'DELETE' THEN 'webhook.deleted' ELSE CASE WHEN NEW.removed_at IS NOT NULL THEN 'webhook.removed' WHEN NEW.repairs > OLD.repairs THEN 'webhook.put_back' ELSE 'webhook.installed' END END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'webhook/' || (SELECT name FROM pools_backend WHERE id = COALESCE(NEW.backend_id, OLD.backend_id)), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="8d0e9ab7b9bda8c9ec77b61c1f47cb7caae0037d",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_8ba86",
                    table="scheduling_webhookinstallation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="webhookinstallation",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of installed webhooks cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="8ec7cd9fb4ca52b79220d6bc735a3ff6c50b3a84",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_781ce",
                    table="scheduling_webhookinstallation",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="workflowconfig",
            constraint=models.CheckConstraint(condition=models.Q(("pk", 1)), name="workflow_config_is_one_row"),
        ),
        migrations.AddConstraint(
            model_name="workflowconfig",
            constraint=models.CheckConstraint(
                condition=models.Q(("subpool_drain_interval_minutes__range", (1, 10080))),
                name="drain_interval_range",
                violation_error_message="The drain interval is 1 to 10080 minutes.",
            ),
        ),
        migrations.AddConstraint(
            model_name="workflowconfig",
            constraint=models.CheckConstraint(
                condition=models.Q(("max_retry_per_task__range", (0, 100))),
                name="max_retry_range",
                violation_error_message="A task is retried 0 to 100 times.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflowconfig",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['version']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['version']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'workflow_config.created' WHEN 'UPDATE' THEN 'workflow_config.updated' ELSE 'workflow_config.deleted' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'config/workflow', before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="b913e16c4627b3061d11eca7a4f1fcb777a7b413",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_69818",
                    table="scheduling_workflowconfig",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflowconfig",
            trigger=pgtrigger.compiler.Trigger(
                name="owned_by_git",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE subject text; owner pools_configurationowner%ROWTYPE;",
                    func="\n                IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - 'version' = to_jsonb(OLD) - 'version' THEN RETURN NULL; END IF;\n                subject := 'workflow';\n                SELECT * INTO owner FROM pools_configurationowner\n                    WHERE kind = 'config' AND name = subject ;\n                IF NOT FOUND OR owner.source = COALESCE(current_setting('osmo.source', true), '') THEN\n                    RETURN NULL;\n                END IF;\n                RAISE EXCEPTION '%/% is owned by Git (%), so it is read-only here. Change it in that file, or release '\n                    'it on the server with: osmo-admin release %/%', owner.kind, owner.name,\n                    concat_ws(', ', owner.source, NULLIF(owner.path, ''),\n                        'commit ' || NULLIF(left(owner.commit, 12), '')),\n                    owner.kind, owner.name\n                    USING ERRCODE = 'check_violation', CONSTRAINT = 'owned_by_git', TABLE = TG_TABLE_NAME,\n                    DETAIL = jsonb_build_object('owner', 'git', 'source', owner.source, 'path', owner.path,\n                        'commit', owner.commit)::text;\n            ",
                    hash="32bfdd5594544ddf7b1bd6692fb1d676cdc82a2b",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_owned_by_git_30994",
                    table="scheduling_workflowconfig",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflowconfig",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of scheduler settings cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="0c48655b4424bb8c68cab75ae22108ab49496d25",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_773ab",
                    table="scheduling_workflowconfig",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflowname",
            trigger=pgtrigger.compiler.Trigger(
                name="only_grows",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (NEW.last_number < OLD.last_number OR NEW.name <> OLD.name)",
                    func="RAISE EXCEPTION 'The numbers of workflows named % only grow.', OLD.name USING ERRCODE = 'check_violation', CONSTRAINT = 'workflow_numbers_grow', TABLE = TG_TABLE_NAME;",
                    hash="028070cd871eb6b4b3a2cd92fb3c5906b3e63824",
                    operation="UPDATE",
                    pgid="pgtrigger_only_grows_25e5e",
                    table="scheduling_workflowname",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflowname",
            trigger=pgtrigger.compiler.Trigger(
                name="never_deleted",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'Numbers of workflow names cannot be deleted: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'never_deleted', TABLE = TG_TABLE_NAME;",
                    hash="f60f63ad306e3fe429daff45f87faf1258ad89e2",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_never_deleted_cbf9b",
                    table="scheduling_workflowname",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflowname",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of workflow names cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="45cba1ddd34046b8fd73c202e6df3cc7980332bc",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_28cb2",
                    table="scheduling_workflowname",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="workusageday",
            index=models.Index(fields=["day", "leaf_id"], name="work_usage_day"),
        ),
        migrations.AddIndex(
            model_name="workusagehour",
            index=models.Index(fields=["hour", "leaf_id"], name="work_usage_hour"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="observedreservation",
            trigger=pgtrigger.compiler.Trigger(
                name="kept_while_active",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    constraint="CONSTRAINT",
                    declare="DECLARE work record;",
                    func="\n        SELECT name, status INTO work FROM scheduling_workflow WHERE uuid = OLD.workflow;\n        IF FOUND THEN\n            IF work.status IN ('PENDING', 'RUNNING', 'WAITING') THEN\n                IF NOT EXISTS (SELECT FROM pools_reservation WHERE workflow = OLD.workflow) THEN\n                    RAISE EXCEPTION 'Workflow % is active and keeps its reservation.', work.name USING ERRCODE = 'check_violation', CONSTRAINT = 'workflow_is_reserved', TABLE = TG_TABLE_NAME;\n                END IF;\n            ELSIF EXISTS (SELECT FROM pools_reservation WHERE workflow = OLD.workflow) THEN\n                RAISE EXCEPTION 'Workflow % has ended and still has a reservation.', work.name USING ERRCODE = 'check_violation', CONSTRAINT = 'workflow_is_reserved', TABLE = TG_TABLE_NAME;\n            END IF;\n        END IF;\n        RETURN NULL;\n    ",
                    hash="69bcea9b6a0573ac0f4e51bc2f43575a30dfe298",
                    operation="DELETE",
                    pgid="pgtrigger_kept_while_active_8554f",
                    table="pools_reservation",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="recordedchange",
            trigger=pgtrigger.compiler.Trigger(
                name="record_capacity",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (split_part(NEW.object, '/', 1) IN ('pool', 'node', 'backend'))",
                    declare="DECLARE subject bigint; kind text;",
                    func="\n                    kind := split_part(NEW.object, '/', 1);\n                    subject := (COALESCE(NEW.after, NEW.before) ->> 'id')::bigint;\n                    IF kind = 'pool' THEN\n                        UPDATE scheduling_quotaspan SET until = NEW.time WHERE pool_id = subject AND until IS NULL;\n                        INSERT INTO scheduling_quotaspan\n                            (pool_id, parent_id, backend_id, flavor, quota, is_unlimited, is_draining, since)\n                            SELECT quota.*, NEW.time FROM (SELECT NEW.after AS image) entry\n                            CROSS JOIN LATERAL (\n    SELECT (image ->> 'id')::bigint AS pool_id, (image ->> 'parent_id')::bigint AS parent_id,\n        (image ->> 'backend_id')::bigint AS backend_id, part.flavor,\n        CASE\n            WHEN (image ->> 'archived')::boolean THEN 0\n            WHEN image ->> 'parent_id' IS NULL OR image ->> 'subpool_state' = 'ACTIVE' THEN GREATEST(part.quota, 0)\n            ELSE 0\n        END AS quota,\n        image ->> 'parent_id' IS NULL AND NOT (image ->> 'archived')::boolean\n            AND COALESCE((image ->> 'guarantee')::bigint, -1) = -1 AS is_unlimited,\n        COALESCE(image ->> 'subpool_state' = 'DELETING', false) AS is_draining\n    FROM (\n        SELECT flavor, quota FROM jsonb_to_recordset(image -> 'flavors') AS each (flavor text, quota bigint)\n        UNION ALL\n        SELECT 'default', COALESCE(\n            CASE WHEN image ->> 'parent_id' IS NULL THEN image ->> 'guarantee' ELSE image ->> 'last_quota' END, '0'\n        )::bigint\n        WHERE COALESCE(image -> 'flavors', '[]') = '[]'\n    ) part\n) quota WHERE image IS NOT NULL;\n                    ELSIF kind = 'node' THEN\n                        UPDATE scheduling_nodespan SET until = NEW.time WHERE node_id = subject AND until IS NULL;\n                        INSERT INTO scheduling_nodespan (node_id, backend_id, flavor, gpus, since)\n                            SELECT subject, (NEW.after ->> 'backend_id')::bigint,\n                                COALESCE(NEW.after ->> 'flavor', 'default'), (NEW.after ->> 'gpus')::bigint,\n                                NEW.time WHERE NEW.after IS NOT NULL;\n                    ELSE\n                        UPDATE scheduling_offlinespan SET until = NEW.time\n                            WHERE backend_id = subject AND node_id IS NULL AND until IS NULL;\n                        INSERT INTO scheduling_offlinespan (backend_id, since)\n                            SELECT subject, NEW.time WHERE (NEW.after ->> 'offline')::boolean;\n                    END IF;\n                    RETURN NULL;\n                ",
                    hash="3a32e8c4c24946f64fe171705a4635c63e5d689a",
                    operation="INSERT",
                    pgid="pgtrigger_record_capacity_013e6",
                    table="pools_auditentry",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="bypass",
            constraint=models.UniqueConstraint(
                fields=("backend", "kind", "namespace", "username", "code"), name="bypass_once_per_caller"
            ),
        ),
        migrations.AddConstraint(
            model_name="decisioncount",
            constraint=models.UniqueConstraint(fields=("pool", "action"), name="decision_count_once"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="decisioncount",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of decision counts cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="91ab2c3e0ff978f10c01d6e2e9496274cb957f88",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_b2400",
                    table="scheduling_decisioncount",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="historyreplay",
            constraint=models.UniqueConstraint(
                condition=models.Q(("status__in", ["WAITING", "RUNNING"])),
                fields=("user",),
                name="one_replay_of_a_user",
                violation_error_message="One replay of a user runs at a time.",
            ),
        ),
        migrations.AddConstraint(
            model_name="historyreplay",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("status__in", ["WAITING", "RUNNING"]), ("ended_at__isnull", True)),
                    models.Q(("status__in", ["COMPLETED", "FAILED", "CANCELED"]), ("ended_at__isnull", False)),
                    _connector="OR",
                ),
                name="replay_ends_with_its_status",
                violation_error_message="A replay has an end exactly if its status is final.",
            ),
        ),
        migrations.AddConstraint(
            model_name="historyreplay",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("answer__isnull", False), ("status", "COMPLETED")),
                    models.Q(models.Q(("status", "COMPLETED"), _negated=True), ("answer__isnull", True)),
                    _connector="OR",
                ),
                name="replay_answer_when_completed",
                violation_error_message="A replay has an answer exactly if it is complete.",
            ),
        ),
        migrations.AddConstraint(
            model_name="lostcount",
            constraint=models.UniqueConstraint(fields=("pool", "cause"), name="lost_count_once"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="lostcount",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of lost attempts cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="eedff9a1c01352c72c3aa38770a5ef6d2c6ce711",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_ea1d5",
                    table="scheduling_lostcount",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="recordednodestate",
            trigger=pgtrigger.compiler.Trigger(
                name="record_offline",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n                    IF TG_OP = 'UPDATE' AND NEW.ready = OLD.ready THEN RETURN NULL; END IF;\n                    UPDATE scheduling_offlinespan SET until = clock_timestamp()\n                        WHERE node_id = COALESCE(NEW.node_id, OLD.node_id) AND until IS NULL;\n                    INSERT INTO scheduling_offlinespan (backend_id, node_id, since)\n                        SELECT backend_id, id, clock_timestamp() FROM pools_node\n                        WHERE id = NEW.node_id AND NOT NEW.ready;\n                    RETURN NULL;\n                ",
                    hash="263456b1c7745dccaa45e601d66066d907406682",
                    operation='INSERT OR UPDATE OF "ready" OR DELETE',
                    pgid="pgtrigger_record_offline_6c913",
                    table="scheduling_nodestate",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="workflow",
            index=models.Index(fields=["-submit_time", "-name"], name="workflow_newest"),
        ),
        migrations.AddIndex(
            model_name="workflow",
            index=models.Index(fields=["submitted_by", "-submit_time"], name="workflow_by_user"),
        ),
        migrations.AddIndex(
            model_name="workflow",
            index=models.Index(fields=["root_pool", "-submit_time"], name="workflow_by_root"),
        ),
        migrations.AddIndex(
            model_name="workflow",
            index=models.Index(fields=["pool", "-submit_time"], name="workflow_by_pool"),
        ),
        migrations.AddIndex(
            model_name="workflow",
            index=models.Index(
                condition=models.Q(
                    (
                        "status__in",
                        [
                            scheduling.domain.statuses.WorkflowStatus["PENDING"],
                            scheduling.domain.statuses.WorkflowStatus["RUNNING"],
                            scheduling.domain.statuses.WorkflowStatus["WAITING"],
                        ],
                    )
                ),
                fields=["pool"],
                name="workflow_live",
            ),
        ),
        migrations.AddIndex(
            model_name="workflow",
            index=models.Index(
                condition=models.Q(
                    (
                        "status__in",
                        [
                            scheduling.domain.statuses.WorkflowStatus["PENDING"],
                            scheduling.domain.statuses.WorkflowStatus["RUNNING"],
                            scheduling.domain.statuses.WorkflowStatus["WAITING"],
                        ],
                    )
                ),
                fields=["submitted_by"],
                name="workflow_live_by_user",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflow",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD); END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW); END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE WHEN TG_OP = 'INSERT' THEN 'workflow.submitted' WHEN TG_OP = 'DELETE' THEN 'workflow.deleted' WHEN NEW.status = OLD.status THEN 'workflow.updated' WHEN NEW.status = 'FAILED_CANCELED' THEN 'workflow.canceled' WHEN NEW.status = 'RUNNING' THEN 'workflow.started' WHEN NEW.status = 'PENDING' THEN 'workflow.waiting' ELSE 'workflow.ended' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'workflow/' || COALESCE(NEW.name, OLD.name), before_row - ARRAY['spec', 'template_spec', 'env_vars']::text[] || jsonb_build_object('pool', (SELECT name FROM pools_pool WHERE id = COALESCE(NEW.pool_id, OLD.pool_id))), after_row - ARRAY['spec', 'template_spec', 'env_vars']::text[] || jsonb_build_object('pool', (SELECT name FROM pools_pool WHERE id = COALESCE(NEW.pool_id, OLD.pool_id))),\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    COALESCE(NEW.root_pool_id, OLD.root_pool_id), (SELECT username FROM pools_user WHERE id = COALESCE(NEW.submitted_by_id, OLD.submitted_by_id)), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="c5c717f656d078e96b8b3b85c6fe6c7842572073",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_4660e",
                    table="scheduling_workflow",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflow",
            trigger=pgtrigger.compiler.Trigger(
                name="never_deleted",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'Workflows cannot be deleted: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'never_deleted', TABLE = TG_TABLE_NAME;",
                    hash="51f28d84e5c91cdfd70560634771b9b8ebe2a171",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_never_deleted_1dfac",
                    table="scheduling_workflow",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflow",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of workflows cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="dfb44f471dfc9d2750e8a610cef7c95db23d6d08",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_75f7d",
                    table="scheduling_workflow",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflow",
            trigger=pgtrigger.compiler.Trigger(
                name="status_machine",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (OLD.status IS DISTINCT FROM NEW.status)",
                    func="\n        IF OLD.status NOT IN ('PENDING', 'RUNNING', 'WAITING') THEN\n            RAISE EXCEPTION 'Workflow % has ended (%) and stays so.', OLD.name, OLD.status USING ERRCODE = 'check_violation', CONSTRAINT = 'workflow_status_machine', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF NEW.status NOT IN ('PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'FAILED_SERVER_ERROR', 'FAILED_EXEC_TIMEOUT', 'FAILED_QUEUE_TIMEOUT', 'FAILED_CANCELED', 'FAILED_BACKEND_ERROR', 'FAILED_IMAGE_PULL', 'FAILED_EVICTED', 'FAILED_START_ERROR', 'FAILED_START_TIMEOUT', 'FAILED_PREEMPTED') THEN\n            RAISE EXCEPTION 'Workflow % cannot become %.', OLD.name, NEW.status USING ERRCODE = 'check_violation', CONSTRAINT = 'workflow_status_machine', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NEW;\n    ",
                    hash="be2214c22167e8bc43d634361ad5c8815a37c360",
                    operation='UPDATE OF "status"',
                    pgid="pgtrigger_status_machine_d9041",
                    table="scheduling_workflow",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflow",
            trigger=pgtrigger.compiler.Trigger(
                name="reserved_while_active",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (OLD.status IS DISTINCT FROM NEW.status)",
                    constraint="CONSTRAINT",
                    declare="DECLARE work record;",
                    func="\n        SELECT name, status INTO work FROM scheduling_workflow WHERE uuid = NEW.uuid;\n        IF FOUND THEN\n            IF work.status IN ('PENDING', 'RUNNING', 'WAITING') THEN\n                IF NOT EXISTS (SELECT FROM pools_reservation WHERE workflow = NEW.uuid) THEN\n                    RAISE EXCEPTION 'Workflow % is active and keeps its reservation.', work.name USING ERRCODE = 'check_violation', CONSTRAINT = 'workflow_is_reserved', TABLE = TG_TABLE_NAME;\n                END IF;\n            ELSIF EXISTS (SELECT FROM pools_reservation WHERE workflow = NEW.uuid) THEN\n                RAISE EXCEPTION 'Workflow % has ended and still has a reservation.', work.name USING ERRCODE = 'check_violation', CONSTRAINT = 'workflow_is_reserved', TABLE = TG_TABLE_NAME;\n            END IF;\n        END IF;\n        RETURN NULL;\n    ",
                    hash="2cb182db063476c2a6cca715606f2fea7d14e9c9",
                    operation='UPDATE OF "status"',
                    pgid="pgtrigger_reserved_while_active_e8532",
                    table="scheduling_workflow",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflow",
            trigger=pgtrigger.compiler.Trigger(
                name="move_tokens_of_new",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="\n        FOR concerned IN\n            SELECT id, 'backend/' || id AS subject FROM pools_backend WHERE id IN (SELECT root.backend_id FROM new_rows JOIN pools_pool root ON root.id = new_rows.root_pool_id) ORDER BY id\n        LOOP\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = concerned.subject AND kind = 'work'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES (concerned.subject, 'work', 1, gen_random_uuid());\n        END IF;IF NOT (SELECT offline FROM pools_backend WHERE id = concerned.id) THEN \n        noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');\n        IF position(',submitted:' || concerned.id || ',' IN noted) = 0 THEN\n            PERFORM set_config('osmo.changes', noted || 'submitted:' || concerned.id || ',', true);\n        END IF; END IF;\n        END LOOP; RETURN NULL;",
                    hash="a80d2873881ef1b921d9496743224e83098b6486",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_move_tokens_of_new_a5c02",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="scheduling_workflow",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflow",
            trigger=pgtrigger.compiler.Trigger(
                name="move_tokens_of_changed",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="\n        FOR concerned IN\n            SELECT id, 'backend/' || id AS subject FROM pools_backend WHERE id IN (SELECT root.backend_id FROM new_rows JOIN pools_pool root ON root.id = new_rows.root_pool_id JOIN old_rows ON old_rows.uuid = new_rows.uuid WHERE new_rows IS DISTINCT FROM old_rows) ORDER BY id\n        LOOP\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = concerned.subject AND kind = 'work'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES (concerned.subject, 'work', 1, gen_random_uuid());\n        END IF;\n        END LOOP; RETURN NULL;",
                    hash="77fac2b6c158329c04fda41cf842da5bf9dfe12e",
                    level="STATEMENT",
                    operation="UPDATE",
                    pgid="pgtrigger_move_tokens_of_changed_55dae",
                    referencing="REFERENCING OLD TABLE AS old_rows  NEW TABLE AS new_rows ",
                    table="scheduling_workflow",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="interruption",
            index=models.Index(fields=["workflow", "-time"], name="interruption_of_workflow"),
        ),
        migrations.AddIndex(
            model_name="interruption",
            index=models.Index(fields=["time"], name="interruption_time"),
        ),
        migrations.AddConstraint(
            model_name="interruption",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "cause__in",
                        [
                            "priority",
                            "reclaim",
                            "fair_share",
                            "reservation",
                            "consolidation",
                            "lowered_quota",
                            "below_minimum",
                            "node",
                            "evicted",
                            "person",
                            "not_known",
                        ],
                    )
                ),
                name="interruption_cause",
                violation_error_message="The cause of an interruption is one of the known ones.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="interruption",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of interruptions is append-only: entries cannot be changed or deleted.' USING ERRCODE = 'check_violation', CONSTRAINT = 'append_only', TABLE = TG_TABLE_NAME;",
                    hash="a80fb96b306b5aba5530ac9631616b57fb1ee4e4",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_7db6d",
                    table="scheduling_interruption",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="interruption",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of interruptions cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="0f1ffeef4626dcfebd34494d1fe331afe7ce5c24",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_e0c00",
                    table="scheduling_interruption",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="group",
            index=models.Index(
                condition=models.Q(("status", scheduling.domain.statuses.TaskStatus["SCHEDULING"])),
                fields=["gpus"],
                name="group_waiting",
            ),
        ),
        migrations.AddIndex(
            model_name="group",
            index=models.Index(condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="group_due"),
        ),
        migrations.AddConstraint(
            model_name="group",
            constraint=models.UniqueConstraint(fields=("workflow", "name"), name="group_name_once_per_workflow"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="group",
            trigger=pgtrigger.compiler.Trigger(
                name="move_tokens_of_new",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="\n        FOR concerned IN\n            SELECT id, 'backend/' || id AS subject FROM pools_backend WHERE id IN (\n    SELECT root.backend_id FROM new_rows\n    JOIN scheduling_workflow work ON work.uuid = new_rows.workflow_id\n    JOIN pools_pool root ON root.id = work.root_pool_id) ORDER BY id\n        LOOP\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = concerned.subject AND kind = 'work'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES (concerned.subject, 'work', 1, gen_random_uuid());\n        END IF;\n        END LOOP; RETURN NULL;",
                    hash="d5ab71d3b12f34190c7156eeafb7587f74f69a4e",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_move_tokens_of_new_38f92",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="scheduling_group",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="group",
            trigger=pgtrigger.compiler.Trigger(
                name="move_tokens_of_changed",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="\n        FOR concerned IN\n            SELECT id, 'backend/' || id AS subject FROM pools_backend WHERE id IN (\n    SELECT root.backend_id FROM new_rows\n    JOIN scheduling_workflow work ON work.uuid = new_rows.workflow_id\n    JOIN pools_pool root ON root.id = work.root_pool_id JOIN old_rows ON old_rows.uuid = new_rows.uuid WHERE new_rows IS DISTINCT FROM old_rows) ORDER BY id\n        LOOP\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = concerned.subject AND kind = 'work'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES (concerned.subject, 'work', 1, gen_random_uuid());\n        END IF;\n        END LOOP;\n        FOR concerned IN\n            SELECT id, 'backend/' || id AS subject FROM pools_backend WHERE id IN (\n    SELECT root.backend_id FROM new_rows\n    JOIN scheduling_workflow work ON work.uuid = new_rows.workflow_id\n    JOIN pools_pool root ON root.id = work.root_pool_id JOIN old_rows ON old_rows.uuid = new_rows.uuid WHERE new_rows.status <> old_rows.status\n                AND root.backend_id::text IS DISTINCT FROM current_setting('osmo.controller', true)) ORDER BY id\n        LOOP\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = concerned.subject AND kind = 'plan'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES (concerned.subject, 'plan', 1, gen_random_uuid());\n        END IF;\n        noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');\n        IF position(',changed:' || concerned.id || ',' IN noted) = 0 THEN\n            PERFORM set_config('osmo.changes', noted || 'changed:' || concerned.id || ',', true);\n        END IF;\n        END LOOP; RETURN NULL;",
                    hash="d6ba76fc34590934eccacadb210bb9b621baa91d",
                    level="STATEMENT",
                    operation="UPDATE",
                    pgid="pgtrigger_move_tokens_of_changed_1084b",
                    referencing="REFERENCING OLD TABLE AS old_rows  NEW TABLE AS new_rows ",
                    table="scheduling_group",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="group",
            trigger=pgtrigger.compiler.Trigger(
                name="record_wait",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (OLD.ready_at IS NOT NULL AND OLD.start_time IS NULL AND OLD.end_time IS NULL\n    AND (NEW.start_time IS NOT NULL OR NEW.end_time IS NOT NULL OR NEW.ready_at IS DISTINCT FROM OLD.ready_at))",
                    declare="DECLARE ended timestamptz;",
                    func="\n        ended := GREATEST(OLD.ready_at, COALESCE(NEW.start_time, NEW.end_time, NEW.ready_at, clock_timestamp()));\n        INSERT INTO scheduling_waitspan (group_id, workflow_id, gpus, started, since, until)\n            VALUES (OLD.uuid, OLD.workflow_id, OLD.gpus, NEW.start_time IS NOT NULL, OLD.ready_at, ended);\n        IF ended < date_trunc('hour', clock_timestamp(), 'UTC') THEN\n            INSERT INTO scheduling_lateusage (since) VALUES (ended);\n        END IF;\n        RETURN NULL;\n    ",
                    hash="daaa62f8a29fab04e09471db54195d0c607a41c1",
                    operation="UPDATE",
                    pgid="pgtrigger_record_wait_eac24",
                    table="scheduling_group",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="group",
            trigger=pgtrigger.compiler.Trigger(
                name="never_deleted",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'Groups of workflows cannot be deleted: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'never_deleted', TABLE = TG_TABLE_NAME;",
                    hash="1ed87013d30a11c42dabcb85f59749e51010e10d",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_never_deleted_5eeec",
                    table="scheduling_group",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="group",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of groups cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="94972ea954124756ebf6f435e7dd149f4d0377b5",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_0bb53",
                    table="scheduling_group",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="decision",
            index=models.Index(fields=["backend", "-id"], name="decision_by_backend"),
        ),
        migrations.AddIndex(
            model_name="decision",
            index=models.Index(fields=["root_pool", "-id"], name="decision_by_root"),
        ),
        migrations.AddIndex(
            model_name="decision",
            index=models.Index(fields=["pool", "-id"], name="decision_by_pool"),
        ),
        migrations.AddIndex(
            model_name="decision",
            index=models.Index(fields=["workflow", "-id"], name="decision_by_workflow"),
        ),
        migrations.AddIndex(
            model_name="decision",
            index=models.Index(fields=["time"], name="decision_time"),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("action__in", ["start", "give_up", "preempt"]), ("for_workflow__isnull", True)),
                    models.Q(("action__in", ["move", "reclaim", "preempt"]), ("for_workflow__isnull", False)),
                    _connector="OR",
                ),
                name="decision_names_for_whom",
                violation_error_message="A move or a reclaim has a beneficiary; a start or a give-up has none.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="decision",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        IF TG_OP = 'DELETE' AND OLD.time < now() - interval '1 day' THEN\n            RETURN OLD;\n        END IF;\n        RAISE EXCEPTION 'Decisions are history: they cannot be changed, nor deleted while recent.' USING ERRCODE = 'check_violation', CONSTRAINT = 'append_only', TABLE = TG_TABLE_NAME;\n    ",
                    hash="9b4817fb16e870379d7a04f766996e5a27c43f71",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_4f202",
                    table="scheduling_decision",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="decision",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of decisions cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="3796e7c12a5539e38fe68b636e708f1bd383ea67",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_fd84d",
                    table="scheduling_decision",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="decision",
            trigger=pgtrigger.compiler.Trigger(
                name="count_decisions",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        INSERT INTO scheduling_decisioncount AS kept (pool_id, action, count, gpus)\n            SELECT pool_id, action, count(*), sum(gpus) FROM made GROUP BY pool_id, action ORDER BY pool_id, action\n            ON CONFLICT (pool_id, action)\n            DO UPDATE SET count = kept.count + excluded.count, gpus = kept.gpus + excluded.gpus;\n        RETURN NULL;\n    ",
                    hash="98ee3cb8602e0a2d7b1ba2a3659037754cc0ffa8",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_count_decisions_2332a",
                    referencing="REFERENCING NEW TABLE AS made ",
                    table="scheduling_decision",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="decision",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (NEW.action IN ('preempt', 'reclaim'))",
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['message', 'for_workflow_id']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['message', 'for_workflow_id']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := 'workflow.preempted';\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'preemption/' || (SELECT name FROM scheduling_workflow workflow WHERE workflow.uuid = NEW.workflow_id), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NEW.root_pool_id, (SELECT username FROM pools_user WHERE id = (SELECT submitted_by_id FROM scheduling_workflow workflow WHERE workflow.uuid = NEW.workflow_id)), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="4a8b1ec293394e0dc396eaa626b157af02c49cec",
                    operation="INSERT",
                    pgid="pgtrigger_audit_744ae",
                    table="scheduling_decision",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="promisedstart",
            index=models.Index(
                condition=models.Q(
                    (
                        "outcome__in",
                        (
                            scheduling.domain.promised_starts.PromiseOutcome["OPEN"],
                            scheduling.domain.promised_starts.PromiseOutcome["BROKEN"],
                        ),
                    )
                ),
                fields=["backend_id"],
                name="promise_not_kept",
            ),
        ),
        migrations.AddIndex(
            model_name="promisedstart",
            index=models.Index(fields=["ended_at"], name="promise_ended"),
        ),
        migrations.AddConstraint(
            model_name="promisedstart",
            constraint=models.UniqueConstraint(
                condition=models.Q(("outcome", scheduling.domain.promised_starts.PromiseOutcome["OPEN"])),
                fields=("group",),
                name="promise_open_once",
                violation_error_message="A gang has one open promise of its start.",
            ),
        ),
        migrations.AddConstraint(
            model_name="promisedstart",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("ended_at__isnull", True),
                        ("outcome", scheduling.domain.promised_starts.PromiseOutcome["OPEN"]),
                        ("reason", ""),
                    ),
                    models.Q(
                        (
                            "ended_at__lte",
                            django.db.models.expressions.CombinedExpression(
                                models.F("latest_start"), "+", models.Value(datetime.timedelta(seconds=60))
                            ),
                        ),
                        ("outcome", scheduling.domain.promised_starts.PromiseOutcome["KEPT"]),
                        ("reason", ""),
                    ),
                    models.Q(
                        ("ended_at__gt", models.F("latest_start")),
                        ("outcome", scheduling.domain.promised_starts.PromiseOutcome["BROKEN"]),
                        ("reason", ""),
                    ),
                    models.Q(
                        (
                            "ended_at__lte",
                            django.db.models.expressions.CombinedExpression(
                                models.F("latest_start"), "+", models.Value(datetime.timedelta(seconds=60))
                            ),
                        ),
                        ("outcome", scheduling.domain.promised_starts.PromiseOutcome["WITHDRAWN"]),
                        (
                            "reason__in",
                            [
                                scheduling.domain.promised_starts.WithdrawalReason["ENDED"],
                                scheduling.domain.promised_starts.WithdrawalReason["CHANGED"],
                                scheduling.domain.promised_starts.WithdrawalReason["NO_RESERVATION"],
                            ],
                        ),
                    ),
                    _connector="OR",
                ),
                name="promise_ends_truly",
                violation_error_message="A promised start is open without an end, kept by its time, broken after it, or withdrawn for a reason, at most a minute after it.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="promisedstart",
            trigger=pgtrigger.compiler.Trigger(
                name="promise_stands",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        IF TG_OP = 'DELETE' THEN\n            IF COALESCE(OLD.ended_at, OLD.latest_start) >= now() - interval '1 day' THEN\n                RAISE EXCEPTION 'A promised start is history: it is not deleted while it is open or recent.' USING ERRCODE = 'check_violation', CONSTRAINT = 'promise_stands', TABLE = TG_TABLE_NAME;\n            END IF;\n            RETURN OLD;\n        END IF;\n        IF OLD.outcome <> 'open' THEN\n            RAISE EXCEPTION 'The promise to % is % and stays so.', OLD.gang, OLD.outcome USING ERRCODE = 'check_violation', CONSTRAINT = 'promise_stands', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF (NEW.id, NEW.group_id, NEW.backend_id, NEW.gang, NEW.waits_since, NEW.made_at)\n            <> (OLD.id, OLD.group_id, OLD.backend_id, OLD.gang, OLD.waits_since, OLD.made_at)\n            OR NEW.latest_start > OLD.latest_start THEN\n            RAISE EXCEPTION 'The promise to % keeps its gang, and its time moves earlier only.', OLD.gang USING ERRCODE = 'check_violation', CONSTRAINT = 'promise_stands', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NEW;\n    ",
                    hash="8ae075985d24ea6f369f06828e1a99d24c14cb1e",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_promise_stands_b5a42",
                    table="scheduling_promisedstart",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="promisedstart",
            trigger=pgtrigger.compiler.Trigger(
                name="count_promises",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (NEW.outcome <> OLD.outcome)",
                    func="\n        INSERT INTO scheduling_promisecount AS kept (backend_id, outcome, count) VALUES (NEW.backend_id, NEW.outcome, 1)\n            ON CONFLICT (backend_id, outcome) DO UPDATE SET count = kept.count + 1;\n        RETURN NULL;\n    ",
                    hash="09ca025f86d11365e488abc9645325bd267007fc",
                    operation="UPDATE",
                    pgid="pgtrigger_count_promises_e6941",
                    table="scheduling_promisedstart",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="promisedstart",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of promised starts cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="2aebe270e26e114441c6bd5a223333aa69eec23a",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_d4422",
                    table="scheduling_promisedstart",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="queuedrift",
            constraint=models.UniqueConstraint(
                condition=models.Q(("reapplied_at__isnull", True)),
                fields=("backend", "queue", "field"),
                name="drift_open_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="queueguard",
            constraint=models.CheckConstraint(
                condition=models.Q(("mode__in", ["off", "audit", "enforce"])),
                name="guard_mode_known",
                violation_error_message="A webhook's mode is off, audit or enforce.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="queueguard",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['version']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['version']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'webhook.created' WHEN 'DELETE' THEN 'webhook.deleted' ELSE 'webhook.updated' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'webhook/' || (SELECT name FROM pools_backend WHERE id = COALESCE(NEW.backend_id, OLD.backend_id)), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="0fae435b0fbeda5747e57d8063d967301fd5173e",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_5649f",
                    table="scheduling_queueguard",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="queueguard",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of webhook settings cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="d0a4c3fa2af34a958e159e96492aa80158b5592f",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_d52ff",
                    table="scheduling_queueguard",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("status", scheduling.domain.statuses.TaskStatus["RUNNING"])),
                fields=["node_name"],
                include=("gpu_count",),
                name="task_on_node",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("dispatched_at__isnull", False), ("pod_gone_at", None)),
                fields=["node_name"],
                name="task_with_pod",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(fields=["-start_time"], name="task_newest"),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("start_time__isnull", False)), fields=["end_time"], name="task_ended"
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(
                    (
                        "status__in",
                        (
                            scheduling.domain.statuses.TaskStatus["FAILED"],
                            scheduling.domain.statuses.TaskStatus["FAILED_BACKEND_ERROR"],
                            scheduling.domain.statuses.TaskStatus["FAILED_START_ERROR"],
                            scheduling.domain.statuses.TaskStatus["FAILED_START_TIMEOUT"],
                            scheduling.domain.statuses.TaskStatus["RESCHEDULED"],
                        ),
                    )
                ),
                fields=["end_time"],
                name="task_failed",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.UniqueConstraint(fields=("group", "name", "retry_id"), name="task_attempt_once"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="task",
            trigger=pgtrigger.compiler.Trigger(
                name="record_late",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (NEW.start_time < date_trunc('hour', clock_timestamp(), 'UTC') AND NEW.start_time IS DISTINCT FROM OLD.start_time OR NEW.end_time < date_trunc('hour', clock_timestamp(), 'UTC') AND NEW.end_time IS DISTINCT FROM OLD.end_time)",
                    func="\n        INSERT INTO scheduling_lateusage (since)\n            VALUES (LEAST(NEW.start_time, OLD.start_time, NEW.end_time, OLD.end_time));\n        RETURN NULL;\n    ",
                    hash="e434d1911fde3608ef72a2a01418321ca676ec4c",
                    operation="UPDATE",
                    pgid="pgtrigger_record_late_ab869",
                    table="scheduling_task",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="task",
            trigger=pgtrigger.compiler.Trigger(
                name="move_tokens_of_new",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="\n        FOR concerned IN\n            SELECT id, 'backend/' || id AS subject FROM pools_backend WHERE id IN (\n    SELECT root.backend_id FROM new_rows\n    JOIN scheduling_group gang ON gang.uuid = new_rows.group_id\n    JOIN scheduling_workflow work ON work.uuid = gang.workflow_id\n    JOIN pools_pool root ON root.id = work.root_pool_id) ORDER BY id\n        LOOP\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = concerned.subject AND kind = 'work'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES (concerned.subject, 'work', 1, gen_random_uuid());\n        END IF;\n        END LOOP; RETURN NULL;",
                    hash="25d0f8545cfc85cd343b5eec64c83b680a69572d",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_move_tokens_of_new_6d137",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="scheduling_task",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="task",
            trigger=pgtrigger.compiler.Trigger(
                name="move_tokens_of_changed",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="\n        FOR concerned IN\n            SELECT id, 'backend/' || id AS subject FROM pools_backend WHERE id IN (\n    SELECT root.backend_id FROM new_rows\n    JOIN scheduling_group gang ON gang.uuid = new_rows.group_id\n    JOIN scheduling_workflow work ON work.uuid = gang.workflow_id\n    JOIN pools_pool root ON root.id = work.root_pool_id JOIN old_rows ON old_rows.uuid = new_rows.uuid WHERE new_rows IS DISTINCT FROM old_rows) ORDER BY id\n        LOOP\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = concerned.subject AND kind = 'work'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES (concerned.subject, 'work', 1, gen_random_uuid());\n        END IF;\n        END LOOP; RETURN NULL;",
                    hash="de667e1d0465ebf86fa9f90ffdac3c2d974bcf41",
                    level="STATEMENT",
                    operation="UPDATE",
                    pgid="pgtrigger_move_tokens_of_changed_e951a",
                    referencing="REFERENCING OLD TABLE AS old_rows  NEW TABLE AS new_rows ",
                    table="scheduling_task",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="task",
            trigger=pgtrigger.compiler.Trigger(
                name="never_deleted",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'Tasks of workflows cannot be deleted: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'never_deleted', TABLE = TG_TABLE_NAME;",
                    hash="68de971b4dfd689f7c95619ddd635855f33d4878",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_never_deleted_508a4",
                    table="scheduling_task",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="task",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of tasks cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="878ea4fbd0865540b20362c0ce04dd7f79a76b70",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_c34ab",
                    table="scheduling_task",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="receiptedtask",
            trigger=pgtrigger.compiler.Trigger(
                name="has_receipt",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (NEW.start_time IS NOT NULL AND NEW.end_time IS NOT NULL AND (NEW.exit_code IN (3001, 3004, 3006) OR NEW.status IN ('FAILED_BACKEND_ERROR', 'FAILED_EVICTED', 'FAILED_PREEMPTED', 'FAILED_CANCELED')))",
                    constraint="CONSTRAINT",
                    func="\n                    IF \n    NEW.start_time IS NOT NULL AND NEW.end_time IS NOT NULL AND (\n        NEW.status IN ('FAILED_BACKEND_ERROR', 'FAILED_EVICTED', 'FAILED_PREEMPTED') OR NEW.exit_code IN (3001, 3004, 3006)\n        OR NEW.status = 'FAILED_CANCELED' AND EXISTS (\n            SELECT FROM scheduling_group part JOIN scheduling_workflow work ON work.uuid = part.workflow_id\n            JOIN pools_user owner ON owner.id = work.submitted_by_id\n            WHERE part.uuid = NEW.group_id AND work.cancelled_by NOT IN ('', owner.username)\n        )\n    )\n\n                        AND NOT EXISTS (SELECT FROM scheduling_receipt receipt WHERE receipt.task_id = NEW.uuid) THEN\n                        RAISE EXCEPTION 'An attempt that something else ended has a receipt.' USING ERRCODE = 'check_violation', CONSTRAINT = 'attempt_has_receipt', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    RETURN NULL;\n                ",
                    hash="129e8475b8ada2060dd7d6015192bcab6ba077cc",
                    operation='INSERT OR UPDATE OF "status", "end_time", "exit_code"',
                    pgid="pgtrigger_has_receipt_6e7e8",
                    table="scheduling_task",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="schedulerdifference",
            index=models.Index(fields=["backend", "-id"], name="difference_by_backend"),
        ),
        migrations.AddIndex(
            model_name="schedulerdifference",
            index=models.Index(fields=["time"], name="difference_time"),
        ),
        migrations.AddConstraint(
            model_name="schedulerdifference",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["started", "preempted", "left_waiting"])),
                name="difference_kind_known",
                violation_error_message="A difference is one of started, preempted, left_waiting.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="schedulerdifference",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        IF TG_OP = 'DELETE' AND (\n            OLD.time < now() - interval '1 day'\n            OR OLD.id <= (\n                SELECT id FROM scheduling_schedulerdifference WHERE backend_id = OLD.backend_id\n                ORDER BY id DESC OFFSET 10000 LIMIT 1\n            )\n        ) THEN\n            RETURN OLD;\n        END IF;\n        RAISE EXCEPTION 'Differences are history: they cannot be changed, nor deleted while recent.' USING ERRCODE = 'check_violation', CONSTRAINT = 'append_only', TABLE = TG_TABLE_NAME;\n    ",
                    hash="75940007393511cb7e7900a1805c0606af78d41a",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_44435",
                    table="scheduling_schedulerdifference",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="schedulerdifference",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of differences cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="1864921d26881ebe43ac83b2915d8709e4d3acab",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_a0493",
                    table="scheduling_schedulerdifference",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="schedulingcycle",
            index=models.Index(fields=["time"], name="scheduling_cycle_time"),
        ),
        migrations.AddConstraint(
            model_name="schedulingcycle",
            constraint=models.UniqueConstraint(fields=("backend", "time"), name="one_cycle_at_a_time"),
        ),
        migrations.AddConstraint(
            model_name="schedulingcycle",
            constraint=models.CheckConstraint(
                condition=models.Q(("units__gt", 0)),
                name="cycle_planned_something",
                violation_error_message="A scheduling cycle of the record planned at least one unit.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="schedulingcycle",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'Scheduling cycles are history: they cannot be changed.' USING ERRCODE = 'check_violation', CONSTRAINT = 'append_only', TABLE = TG_TABLE_NAME;",
                    hash="c670328e0453c74aec8d2960c6cbecc827beb991",
                    operation="UPDATE",
                    pgid="pgtrigger_append_only_72f58",
                    table="scheduling_schedulingcycle",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="schedulingcycle",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of scheduling cycles cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="635047ad013dab98c173fbc3dfc59d8be2323db0",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_63529",
                    table="scheduling_schedulingcycle",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="startcount",
            constraint=models.UniqueConstraint(fields=("pool", "priority", "bucket"), name="start_count_once"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="startcount",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of start counts cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="f71d30ab3e5bf3f906ae0210a4de4333bb93ab8b",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_cd0d9",
                    table="scheduling_startcount",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="startreservation",
            constraint=models.CheckConstraint(
                condition=models.Q(("placed_at__isnull", True), ("nodes__isnull", False), _connector="OR"),
                name="placed_with_its_nodes",
                violation_error_message="A start reservation without nodes has no time of their choice.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="startreservation",
            trigger=pgtrigger.compiler.Trigger(
                name="move_tokens",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN RETURN NULL; END IF;\n        FOR concerned IN\n            SELECT id, 'backend/' || id AS subject FROM pools_backend WHERE id IN (NEW.backend_id, OLD.backend_id) ORDER BY id\n        LOOP\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = concerned.subject AND kind = 'work'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES (concerned.subject, 'work', 1, gen_random_uuid());\n        END IF;\n        END LOOP; RETURN NULL;",
                    hash="ba369499ba89b53f7a06ea59ab7aa9f525239154",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_move_tokens_db3cb",
                    table="scheduling_startreservation",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="stuckgroup",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "kind__in",
                        [
                            scheduling.domain.engine.reasons.liveness.StuckKind["IDLE_CLUSTER"],
                            scheduling.domain.engine.reasons.liveness.StuckKind["BEHIND_LOW_WORK"],
                            scheduling.domain.engine.reasons.liveness.StuckKind["BEHIND_LATER_WORK"],
                        ],
                    )
                ),
                name="stuck_kind_known",
                violation_error_message="A stuck gang breaks one of the known rules.",
            ),
        ),
        migrations.AddConstraint(
            model_name="observedwork",
            constraint=models.UniqueConstraint(
                condition=models.Q(("is_open", True)), fields=("backend", "uid"), name="observed_object_once"
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="observedwork",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of observed work cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="53808542f10624bc3538582e9755895d0ae3ccae",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_eaf2f",
                    table="scheduling_observedwork",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="receipt",
            trigger=pgtrigger.compiler.Trigger(
                name="count_lost",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        INSERT INTO scheduling_lostcount AS kept (pool_id, cause, count, gpu_ms)\n            SELECT why.pool_id, why.cause, count(*), sum(made.lost_gpu_ms)\n            FROM made JOIN scheduling_interruption why ON why.id = made.interruption_id\n            GROUP BY why.pool_id, why.cause ORDER BY why.pool_id, why.cause\n            ON CONFLICT (pool_id, cause)\n            DO UPDATE SET count = kept.count + excluded.count, gpu_ms = kept.gpu_ms + excluded.gpu_ms;\n        RETURN NULL;\n    ",
                    hash="0ab11b7a614dc81bd734ef925b1abcfb5f96c4c3",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_count_lost_88ce5",
                    referencing="REFERENCING NEW TABLE AS made ",
                    table="scheduling_receipt",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="receipt",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of receipts is append-only: entries cannot be changed or deleted.' USING ERRCODE = 'check_violation', CONSTRAINT = 'append_only', TABLE = TG_TABLE_NAME;",
                    hash="81ef42fb07efa33a09f09ec6f1beef385a1cad68",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_a6893",
                    table="scheduling_receipt",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="receipt",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of receipts cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="0f6b36c2db0e9cfa53c6ea07ce1e8f4720d85f71",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_8ede3",
                    table="scheduling_receipt",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="receipt",
            trigger=pgtrigger.compiler.Trigger(
                name="of_ended_attempt",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    constraint="CONSTRAINT",
                    func="\n                    IF NOT EXISTS (\n                        SELECT FROM scheduling_task attempt\n                        JOIN scheduling_interruption why ON why.id = NEW.interruption_id\n                        WHERE attempt.uuid = NEW.task_id AND attempt.end_time = why.time\n                            AND attempt.group_id = why.group_id\n                    ) THEN\n                        RAISE EXCEPTION 'A receipt is of an attempt that ended then.' USING ERRCODE = 'check_violation', CONSTRAINT = 'receipt_of_ended_attempt', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    RETURN NULL;\n                ",
                    hash="06bc69c8909ab3b52e4d6939be58d4e0caf2a82e",
                    operation="INSERT",
                    pgid="pgtrigger_of_ended_attempt_03c9b",
                    table="scheduling_receipt",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
    ]
