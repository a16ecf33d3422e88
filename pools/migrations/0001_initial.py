# Each model stands after those that its foreign keys name: a key that is added to a table later renders all models again.

import django.contrib.auth.models
import django.contrib.auth.validators
import django.core.validators
import django.db.models.deletion
import django.db.models.fields.json
import django.db.models.functions.datetime
import django.db.models.functions.text
import django.utils.timezone
import pgtrigger.compiler
import pgtrigger.migrations
import pools.domain.approvals
import pools.domain.people.notices
import pools.domain.subpool_lifecycle
import pools.models.audit
import uuid
from decimal import Decimal
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("time", models.DateTimeField()),
                ("actor", models.TextField()),
                ("action", models.TextField()),
                ("object", models.TextField()),
                ("before", models.JSONField(null=True)),
                ("after", models.JSONField(null=True)),
                ("description", models.TextField(blank=True)),
                ("request_id", models.TextField(blank=True)),
                ("pool_id", models.BigIntegerField(null=True)),
                ("owner", models.TextField(null=True)),
                ("transaction", pools.models.audit.TransactionIdField()),
            ],
            options={
                "verbose_name_plural": "audit entries",
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="Backend",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.TextField(unique=True)),
                (
                    "kind",
                    models.TextField(
                        choices=[("simulated", "Simulated"), ("kubernetes", "Kubernetes")], default="simulated"
                    ),
                ),
                (
                    "namespace",
                    models.TextField(
                        default="default",
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\Z", "Use lower-case letters, digits and hyphens."
                            )
                        ],
                    ),
                ),
                ("description", models.TextField(blank=True)),
                ("auto_end", models.BooleanField(default=True)),
                ("reserve_after", models.PositiveIntegerField(default=3600, null=True)),
                ("ageing", models.PositiveIntegerField(default=14400, null=True)),
                ("victims", models.TextField(default="youngest")),
                ("degraded", models.TextField(db_default="proportional", default="proportional")),
                ("flavors", models.JSONField(db_default=[], default=list)),
                ("offline", models.BooleanField(default=False)),
                ("offline_requested", models.BooleanField(default=False)),
                ("version", models.PositiveIntegerField(default=1)),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="ChangeToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("subject", models.TextField()),
                ("kind", models.TextField()),
                ("number", models.BigIntegerField(default=1)),
                ("stamp", models.UUIDField()),
            ],
        ),
        migrations.CreateModel(
            name="User",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                (
                    "is_superuser",
                    models.BooleanField(
                        default=False,
                        help_text="Designates that this user has all permissions without explicitly assigning them.",
                        verbose_name="superuser status",
                    ),
                ),
                (
                    "username",
                    models.CharField(
                        error_messages={"unique": "A user with that username already exists."},
                        help_text="Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.",
                        max_length=150,
                        unique=True,
                        validators=[django.contrib.auth.validators.UnicodeUsernameValidator()],
                        verbose_name="username",
                    ),
                ),
                ("first_name", models.CharField(blank=True, max_length=150, verbose_name="first name")),
                ("last_name", models.CharField(blank=True, max_length=150, verbose_name="last name")),
                ("email", models.EmailField(blank=True, max_length=254, verbose_name="email address")),
                (
                    "is_staff",
                    models.BooleanField(
                        default=False,
                        help_text="Designates whether the user can log into this admin site.",
                        verbose_name="staff status",
                    ),
                ),
                (
                    "is_active",
                    models.BooleanField(
                        default=True,
                        help_text="Designates whether this user should be treated as active. Unselect this instead of deleting accounts.",
                        verbose_name="active",
                    ),
                ),
                ("date_joined", models.DateTimeField(default=django.utils.timezone.now, verbose_name="date joined")),
                ("created_by", models.TextField(blank=True)),
                ("default_pool", models.TextField(blank=True)),
                ("email_notification", models.BooleanField(default=False)),
                ("slack_notification", models.BooleanField(default=False)),
                ("password_login_at", models.DateTimeField(blank=True, null=True)),
                ("is_removed", models.BooleanField(db_default=False, default=False)),
                (
                    "user_permissions",
                    models.ManyToManyField(
                        blank=True,
                        help_text="Specific permissions for this user.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.permission",
                        verbose_name="user permissions",
                    ),
                ),
            ],
            options={
                "verbose_name": "user",
                "verbose_name_plural": "users",
                "ordering": ["username"],
                "abstract": False,
            },
            managers=[
                ("objects", django.contrib.auth.models.UserManager()),
            ],
        ),
        migrations.CreateModel(
            name="SignOnIdentity",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("provider", models.TextField()),
                ("issuer", models.TextField()),
                ("subject", models.TextField()),
                ("username", models.TextField(blank=True)),
                ("email", models.TextField(blank=True)),
                ("groups", models.JSONField(blank=True, default=list)),
                ("linked_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("signed_on_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("checked_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("valid_until", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("session_until", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("epoch", models.BigIntegerField(default=0)),
                ("refresh_token", models.TextField(blank=True)),
                ("id_token", models.TextField(blank=True)),
                ("session_id", models.TextField(blank=True)),
                ("claimed_until", models.DateTimeField(blank=True, null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="identities",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["user", "provider"],
            },
        ),
        migrations.CreateModel(
            name="ClientLogin",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("user_code", models.CharField(max_length=9, unique=True)),
                ("client_name", models.TextField(blank=True)),
                ("address", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("expires_at", models.DateTimeField()),
                ("is_denied", models.BooleanField(default=False)),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "identity",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="pools.signonidentity",
                    ),
                ),
            ],
            options={
                "ordering": ["created_at"],
            },
        ),
        migrations.CreateModel(
            name="Cohort",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.TextField(unique=True)),
                ("explicit", models.BooleanField(default=True)),
                ("quotas", models.JSONField(default=dict)),
                ("weight", models.DecimalField(decimal_places=9, default=Decimal(1), max_digits=19)),
                ("inactive_since", models.DateTimeField(null=True)),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "parent",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="children",
                        to="pools.cohort",
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="ConfigRevision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("config_type", models.TextField()),
                ("revision", models.PositiveIntegerField()),
                ("name", models.TextField(blank=True)),
                ("username", models.TextField()),
                ("description", models.TextField(blank=True)),
                ("tags", models.JSONField(null=True)),
                ("audit_id", models.BigIntegerField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("deleted_at", models.DateTimeField(null=True)),
                ("deleted_by", models.TextField(blank=True)),
            ],
            options={
                "ordering": ["-revision"],
            },
        ),
        migrations.CreateModel(
            name="ConfigurationOwner",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.TextField(
                        choices=[
                            ("backend", "backend"),
                            ("pool", "pool"),
                            ("cohort", "cohort"),
                            ("gpu_quota", "gpu_quota"),
                            ("role", "role"),
                            ("config", "config"),
                        ]
                    ),
                ),
                ("name", models.TextField()),
                ("source", models.TextField()),
                ("path", models.TextField(blank=True)),
                ("commit", models.TextField(blank=True)),
                ("subpools", models.BooleanField(default=False)),
                ("since", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "ordering": ["kind", "name"],
            },
        ),
        migrations.CreateModel(
            name="Pool",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.TextField(unique=True)),
                ("subpool_name", models.TextField(null=True)),
                (
                    "subpool_state",
                    models.TextField(
                        choices=[
                            (
                                pools.domain.subpool_lifecycle.SubpoolState["ACTIVE"],
                                pools.domain.subpool_lifecycle.SubpoolState["ACTIVE"],
                            ),
                            (
                                pools.domain.subpool_lifecycle.SubpoolState["DELETING"],
                                pools.domain.subpool_lifecycle.SubpoolState["DELETING"],
                            ),
                            (
                                pools.domain.subpool_lifecycle.SubpoolState["ARCHIVED"],
                                pools.domain.subpool_lifecycle.SubpoolState["ARCHIVED"],
                            ),
                        ],
                        null=True,
                    ),
                ),
                ("last_quota", models.IntegerField(null=True)),
                ("quota_until", models.DateTimeField(null=True)),
                ("quota_after", models.IntegerField(null=True)),
                ("flavors", models.JSONField(db_default=[], default=list)),
                ("flavors_after", models.JSONField(db_default=[], default=list)),
                ("drain_by", models.DateTimeField(null=True)),
                ("archived", models.BooleanField(default=False)),
                ("description", models.TextField(blank=True)),
                ("guarantee", models.IntegerField(null=True)),
                ("maximum", models.IntegerField(null=True)),
                ("weight", models.IntegerField(null=True)),
                ("borrowing_limit", models.IntegerField(null=True)),
                ("lending_limit", models.IntegerField(null=True)),
                ("enable_maintenance", models.BooleanField(default=False)),
                ("config", models.JSONField(default=dict)),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "backend",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="pools", to="pools.backend"
                    ),
                ),
                (
                    "cohort",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="pools", to="pools.cohort"
                    ),
                ),
                (
                    "parent",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="subpools", to="pools.pool"
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="FlavorUsage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("flavor", models.TextField()),
                ("used", models.BigIntegerField(default=0)),
                ("total_usage", models.BigIntegerField(default=0)),
                ("committed", models.BigIntegerField(default=0)),
                (
                    "pool",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="flavor_usage",
                        to="pools.pool",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="GpuAllocation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("namespace", models.TextField()),
                ("name", models.TextField()),
                ("workload", models.TextField(blank=True)),
                ("request_tflops", models.DecimalField(decimal_places=3, default=0, max_digits=22)),
                ("request_vram", models.DecimalField(decimal_places=3, default=0, max_digits=22)),
                ("limit_tflops", models.DecimalField(decimal_places=3, default=0, max_digits=22)),
                ("limit_vram", models.DecimalField(decimal_places=3, default=0, max_digits=22)),
                ("count", models.PositiveIntegerField(default=1)),
                ("families", models.TextField(default="DDDD")),
                ("written", models.JSONField(default=list)),
                ("uncounted", models.TextField(blank=True, db_default="", default="")),
                (
                    "state",
                    models.TextField(
                        choices=[("assumed", "Assumed"), ("committed", "Committed"), ("released", "Released")],
                        default="committed",
                    ),
                ),
                (
                    "source",
                    models.TextField(choices=[("api", "Api"), ("workflow", "Workflow"), ("pod", "Pod")], default="api"),
                ),
                ("holder", models.UUIDField(null=True)),
                ("expires_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("changed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("released_at", models.DateTimeField(null=True)),
                ("reason", models.TextField(blank=True)),
                (
                    "backend",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="pools.backend"
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="GpuQuota",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("namespace", models.TextField(unique=True)),
                ("spec", models.JSONField()),
                ("source", models.TextField(default="api")),
                ("faults", models.JSONField(default=list)),
                ("conditions", models.JSONField(default=list)),
                ("alerting", models.JSONField(default=list)),
                ("alert_since", models.DateTimeField(null=True)),
                ("alerts", models.PositiveIntegerField(default=0)),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "ordering": ["namespace"],
            },
        ),
        migrations.CreateModel(
            name="GpuUsage",
            fields=[
                ("namespace", models.TextField(primary_key=True, serialize=False)),
                ("requests_tflops", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("requests_vram", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("limits_tflops", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("limits_vram", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("workers", models.BigIntegerField(default=0)),
                ("assumed_requests_tflops", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("assumed_requests_vram", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("assumed_limits_tflops", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("assumed_limits_vram", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("assumed_workers", models.BigIntegerField(default=0)),
                ("families", models.TextField(default="DDDD")),
                ("revision", models.BigIntegerField(default=0)),
                ("changed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.CreateModel(
            name="GpuUsageSample",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("namespace", models.TextField()),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("requests_tflops", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("requests_vram", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("limits_tflops", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("limits_vram", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("workers", models.BigIntegerField(default=0)),
            ],
            options={
                "ordering": ["namespace", "-at"],
            },
        ),
        migrations.CreateModel(
            name="IdempotencyRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("user_id", models.BigIntegerField()),
                ("token_id", models.BigIntegerField()),
                ("address", models.TextField()),
                ("key", models.CharField(max_length=255)),
                ("fingerprint", models.CharField(max_length=64)),
                ("response", models.JSONField(null=True)),
                ("size", models.PositiveIntegerField(default=0)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), db_index=True),
                ),
            ],
        ),
        migrations.CreateModel(
            name="InboxNotice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entry", models.BigIntegerField()),
                ("kind", models.TextField()),
                ("subject", models.TextField()),
                ("title", models.TextField()),
                ("text", models.TextField()),
                ("page", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="pools.pool",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="InboxRead",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "notice",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="reads", to="pools.inboxnotice"
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LastBackup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("made_at", models.DateTimeField()),
                ("size", models.PositiveBigIntegerField()),
            ],
            options={
                "verbose_name": "last backup",
            },
        ),
        migrations.CreateModel(
            name="LiveWork",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("owner", models.TextField()),
                ("workflows", models.BigIntegerField(default=0)),
                (
                    "pool",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="pools.pool"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Node",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.TextField()),
                ("gpus", models.PositiveIntegerField()),
                ("cpu", models.PositiveIntegerField(default=128)),
                ("memory_bytes", models.PositiveBigIntegerField(default=1099511627776)),
                ("storage_bytes", models.PositiveBigIntegerField(default=4398046511104)),
                ("platform", models.TextField(default="default")),
                ("labels", models.JSONField(db_default={}, default=dict)),
                ("flavor", models.TextField(db_default="default", default="default")),
                ("taint", models.TextField(blank=True, db_default="", default="")),
                ("gpu_pods_only", models.BooleanField(db_default=False, default=False)),
                ("physical_gpus", models.PositiveIntegerField(null=True)),
                ("advertised_gpus", models.PositiveIntegerField(null=True)),
                (
                    "backend",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="nodes", to="pools.backend"
                    ),
                ),
            ],
            options={
                "ordering": ["backend", "name"],
            },
        ),
        migrations.CreateModel(
            name="NoticeTarget",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.TextField()),
                (
                    "channel",
                    models.TextField(
                        choices=[
                            (
                                pools.domain.people.notices.Channel["WEBHOOK"],
                                pools.domain.people.notices.Channel["WEBHOOK"],
                            ),
                            (pools.domain.people.notices.Channel["MAIL"], pools.domain.people.notices.Channel["MAIL"]),
                            (
                                pools.domain.people.notices.Channel["APPRISE"],
                                pools.domain.people.notices.Channel["APPRISE"],
                            ),
                            (
                                pools.domain.people.notices.Channel["SLACK"],
                                pools.domain.people.notices.Channel["SLACK"],
                            ),
                        ]
                    ),
                ),
                ("sealed_address", models.TextField(blank=True)),
                ("shown_address", models.TextField(blank=True)),
                ("sealed_secret", models.TextField(blank=True)),
                ("kinds", models.JSONField(default=list)),
                ("pools", models.JSONField(default=list)),
                ("quiet_hours", models.TextField(blank=True, db_default="", default="")),
                ("is_enabled", models.BooleanField(default=True)),
                ("is_profile", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("failures", models.PositiveIntegerField(default=0)),
                ("retry_at", models.DateTimeField(blank=True, null=True)),
                ("off_reason", models.TextField(blank=True)),
                (
                    "pool",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="pools.pool",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notice_targets",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("message_id", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("entry", models.BigIntegerField(null=True)),
                ("kind", models.TextField()),
                ("subject", models.TextField()),
                ("title", models.TextField()),
                ("text", models.TextField()),
                ("data", models.JSONField(default=dict)),
                (
                    "status",
                    models.TextField(
                        choices=[
                            (pools.domain.people.notices.NoticeStatus["WAITING"], "Waiting"),
                            (pools.domain.people.notices.NoticeStatus["DELIVERED"], "Delivered"),
                            (pools.domain.people.notices.NoticeStatus["DEAD"], "Dead"),
                        ],
                        default=pools.domain.people.notices.NoticeStatus["WAITING"],
                    ),
                ),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("attempted_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("error", models.TextField(blank=True)),
                (
                    "target",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notices",
                        to="pools.noticetarget",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="NoticeCondition",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.TextField()),
                ("subject", models.TextField()),
                ("message", models.TextField()),
                ("since", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "owner",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="pools.pool"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="NoticeProgress",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("transaction", models.TextField()),
                ("entry", models.BigIntegerField(default=0)),
                ("claimed_until", models.DateTimeField(null=True)),
                ("delivered", models.BigIntegerField(default=0)),
                ("dead", models.BigIntegerField(default=0)),
                ("failures", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="Reservation",
            fields=[
                ("workflow", models.UUIDField(primary_key=True, serialize=False)),
                ("workflow_name", models.TextField()),
                ("owner", models.TextField()),
                ("priority", models.TextField()),
                ("held_gpus", models.PositiveIntegerField(default=0)),
                ("needed_gpus", models.PositiveIntegerField(default=0)),
                ("by_flavor", models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("held_since", models.DateTimeField(null=True)),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="reservations", to="pools.pool"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RoleAssignment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("assigned_by", models.TextField(blank=True)),
                ("assigned_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("group", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="auth.group")),
                ("user", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("page", models.CharField(max_length=32)),
                ("name", models.CharField(max_length=40)),
                ("query", models.TextField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="saved_views",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["page", "name"],
            },
        ),
        migrations.CreateModel(
            name="SecretKeyCheck",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("sealed", models.TextField()),
            ],
            options={
                "verbose_name": "secret key check",
            },
        ),
        migrations.CreateModel(
            name="AccessToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.TextField()),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("description", models.TextField(blank=True)),
                ("roles", models.JSONField(blank=True, null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("expires_at", models.DateTimeField()),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tokens", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "parent",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="children",
                        to="pools.accesstoken",
                    ),
                ),
                (
                    "identity",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tokens",
                        to="pools.signonidentity",
                    ),
                ),
            ],
            options={
                "ordering": ["owner", "name"],
            },
        ),
        migrations.CreateModel(
            name="ApprovalRequest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "service",
                    models.TextField(
                        choices=[
                            ("put_pool", "put_pool"),
                            ("patch_pool", "patch_pool"),
                            ("delete_pool", "delete_pool"),
                            ("create_subpool", "create_subpool"),
                            ("resize_subpool", "resize_subpool"),
                            ("delete_subpool", "delete_subpool"),
                        ]
                    ),
                ),
                ("arguments", models.JSONField()),
                ("arguments_format", models.IntegerField(db_default=1, default=1)),
                ("subject", models.TextField()),
                ("pool", models.TextField()),
                ("pool_id_then", models.BigIntegerField()),
                ("expected_version", models.IntegerField(null=True)),
                ("above", models.BigIntegerField()),
                ("needs", models.JSONField()),
                ("description", models.TextField(blank=True)),
                ("requested_by", models.TextField()),
                ("requested_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("expires_at", models.DateTimeField()),
                (
                    "state",
                    models.TextField(
                        choices=[
                            ("waiting", "waiting"),
                            ("approved", "approved"),
                            ("rejected", "rejected"),
                            ("withdrawn", "withdrawn"),
                            ("expired", "expired"),
                            ("superseded", "superseded"),
                        ],
                        default=pools.domain.approvals.ApprovalState["WAITING"],
                    ),
                ),
                ("decided_by", models.TextField(null=True)),
                ("decided_at", models.DateTimeField(null=True)),
                ("decision_note", models.TextField(blank=True)),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [models.Index(fields=["pool", "-id"], name="approval_pool")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", pools.domain.approvals.ApprovalState["WAITING"])),
                        fields=("subject",),
                        name="approval_waits_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                (
                                    "state__in",
                                    [
                                        pools.domain.approvals.ApprovalState["APPROVED"],
                                        pools.domain.approvals.ApprovalState["REJECTED"],
                                    ],
                                ),
                                _negated=True,
                            ),
                            models.Q(
                                ("decided_by__isnull", False),
                                models.Q(("decided_by", models.F("requested_by")), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="approval_by_second_person",
                        violation_error_message="The requester cannot decide the own request: a second person approves or rejects it.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("decided_at__isnull", True),
                                ("decided_by__isnull", True),
                                ("state", pools.domain.approvals.ApprovalState["WAITING"]),
                            ),
                            models.Q(
                                models.Q(("state", pools.domain.approvals.ApprovalState["WAITING"]), _negated=True),
                                ("decided_at__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="approval_decision_complete",
                        violation_error_message="A decided request has the time of its decision, a waiting one has none.",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="KubernetesSettings",
            fields=[
                (
                    "backend",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="kubernetes",
                        serialize=False,
                        to="pools.backend",
                    ),
                ),
                (
                    "mode",
                    models.TextField(
                        choices=[("manage", "Manage"), ("observe", "Observe")], db_default="manage", default="manage"
                    ),
                ),
                (
                    "access",
                    models.TextField(
                        choices=[("kubeconfig", "Kubeconfig"), ("file", "File"), ("in_cluster", "In Cluster")]
                    ),
                ),
                ("sealed_kubeconfig", models.TextField(blank=True)),
                ("credential_mark", models.TextField(blank=True)),
                ("kubeconfig_file", models.TextField(blank=True)),
                ("context", models.TextField(blank=True)),
                ("server", models.TextField(blank=True)),
                ("scheduler_name", models.TextField(default="kai-scheduler")),
                ("node_pool_key", models.TextField(default="kai.scheduler/node-pool")),
                ("node_pool", models.TextField(blank=True)),
                (
                    "sync_mode",
                    models.TextField(
                        choices=[("apply", "Apply"), ("report", "Report"), ("off", "Off")], default="apply"
                    ),
                ),
                ("queue_pools", models.JSONField(db_default={}, default=dict)),
                ("owner_label", models.TextField(blank=True, db_default="", default="")),
            ],
        ),
        migrations.CreateModel(
            name="LeafUsage",
            fields=[
                (
                    "pool",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        primary_key=True,
                        related_name="usage",
                        serialize=False,
                        to="pools.pool",
                    ),
                ),
                ("used", models.BigIntegerField(default=0)),
                ("total_usage", models.BigIntegerField(default=0)),
                ("live_workflows", models.BigIntegerField(default=0)),
                ("committed", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.AddField(
            model_name="user",
            name="groups",
            field=models.ManyToManyField(
                blank=True, related_name="users", through="pools.RoleAssignment", to="auth.group"
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="approvalrequest",
            trigger=pgtrigger.compiler.Trigger(
                name="decided_once",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n                    IF OLD.state <> 'waiting' THEN\n                        RAISE EXCEPTION 'Request % is % already; a decision is final.', OLD.id, OLD.state USING ERRCODE = 'check_violation', CONSTRAINT = 'approval_is_final', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    IF to_jsonb(NEW) - ARRAY['state', 'decided_by', 'decided_at', 'decision_note'] IS DISTINCT FROM to_jsonb(OLD) - ARRAY['state', 'decided_by', 'decided_at', 'decision_note'] THEN\n                        RAISE EXCEPTION 'Request % cannot change: it is decided as it was made.', OLD.id USING ERRCODE = 'check_violation', CONSTRAINT = 'approval_keeps_content', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    RETURN NEW;\n                ",
                    hash="1c371fcaa951499af1d3e206d415f592770f49ce",
                    operation="UPDATE",
                    pgid="pgtrigger_decided_once_8915c",
                    table="pools_approvalrequest",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="approvalrequest",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD); END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW); END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE WHEN TG_OP = 'INSERT' THEN 'approval.requested' ELSE 'approval.' || NEW.state END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'approval/' || NEW.id, before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NEW.pool_id_then, NEW.requested_by, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="35c7ac5830d301efb9603ad276fad819e29ca536",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_audit_316d8",
                    table="pools_approvalrequest",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="approvalrequest",
            trigger=pgtrigger.compiler.Trigger(
                name="never_deleted",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'An approval request cannot be deleted: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'never_deleted', TABLE = TG_TABLE_NAME;",
                    hash="94c9127de3cc261c1f8b881d5b86c178557c304c",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_never_deleted_3a976",
                    table="pools_approvalrequest",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="approvalrequest",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of approval requests cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="7934e9a917903c2f77ea2da69a07c8217a496684",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_17775",
                    table="pools_approvalrequest",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["object", "-id"], name="audit_object"),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["pool_id", "-id"], name="audit_pool"),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(
                condition=models.Q(("action__startswith", "pool.")), fields=["pool_id", "-id"], name="audit_pool_config"
            ),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(
                condition=models.Q(("action__startswith", "workflow."), _negated=True),
                fields=["-id"],
                name="audit_configuration",
            ),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["actor", "-id"], name="audit_actor"),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["owner", "-id"], name="audit_owner"),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["time"], name="audit_time"),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["transaction", "id"], name="audit_stream"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="auditentry",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The audit trail is append-only: entries cannot be changed or deleted.' USING ERRCODE = 'check_violation', CONSTRAINT = 'append_only', TABLE = TG_TABLE_NAME;",
                    hash="7fe74573c8320872c8570f0eef050bde20ecdb63",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_fb412",
                    table="pools_auditentry",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="auditentry",
            trigger=pgtrigger.compiler.Trigger(
                name="protect_derived",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="IF pg_trigger_depth() < 2 THEN RAISE EXCEPTION 'Entries of the audit trail are written by the changes themselves, not by hand.' USING ERRCODE = 'check_violation', CONSTRAINT = 'audit_follows_changes', TABLE = TG_TABLE_NAME; END IF; RETURN NULL;",
                    hash="83875bf57c06b9c30a599b1e49fbc001a8fc9570",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_protect_derived_ffa5e",
                    table="pools_auditentry",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="auditentry",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The audit trail cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="ace865006a5a8e57de8f8a1c26a9aa06816bcbac",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_84349",
                    table="pools_auditentry",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="backend",
            constraint=models.CheckConstraint(
                condition=models.Q(("name__regex", "^[a-z]([a-z0-9-]*[a-z0-9])?$")),
                name="backend_name_rule",
                violation_error_message="A backend name has lower-case letters, digits and hyphens, a letter first.",
            ),
        ),
        migrations.AddConstraint(
            model_name="backend",
            constraint=models.CheckConstraint(
                condition=models.Q(("namespace__regex", "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")),
                name="backend_namespace_rule",
                violation_error_message="A namespace has at most 63 lower-case letters, digits and hyphens.",
            ),
        ),
        migrations.AddConstraint(
            model_name="backend",
            constraint=models.CheckConstraint(
                condition=models.Q(("offline_requested", False), ("offline", True), _connector="OR"),
                name="offline_request_is_offline",
                violation_error_message="A backend that is requested offline is offline, though its cluster answers.",
            ),
        ),
        migrations.AddConstraint(
            model_name="backend",
            constraint=models.CheckConstraint(
                condition=models.Q(("victims__in", ["youngest", "least_lost"])),
                name="backend_victims_rule",
                violation_error_message="The rule for victims is one of youngest, least_lost.",
            ),
        ),
        migrations.AddConstraint(
            model_name="backend",
            constraint=models.CheckConstraint(
                condition=models.Q(("degraded__in", ["proportional", "ordered"])),
                name="backend_degraded_rule",
                violation_error_message="The rule for too few GPUs is one of proportional, ordered.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="backend",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['version']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['version']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'backend.created' WHEN 'UPDATE' THEN 'backend.updated' ELSE 'backend.deleted' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'backend/' || COALESCE(NEW.name, OLD.name), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="3d9e45531c536ba50ce2d97604ed1d395babc57d",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_12a77",
                    table="pools_backend",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="backend",
            trigger=pgtrigger.compiler.Trigger(
                name="owned_by_git",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE subject text; owner pools_configurationowner%ROWTYPE;",
                    func="\n                IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - ARRAY['version', 'offline', 'offline_requested'] = to_jsonb(OLD) - ARRAY['version', 'offline', 'offline_requested'] THEN RETURN NULL; END IF;\n                subject := COALESCE(OLD.name, NEW.name);\n                SELECT * INTO owner FROM pools_configurationowner\n                    WHERE kind = 'backend' AND name = subject ;\n                IF NOT FOUND OR owner.source = COALESCE(current_setting('osmo.source', true), '') THEN\n                    RETURN NULL;\n                END IF;\n                RAISE EXCEPTION '%/% is owned by Git (%), so it is read-only here. Change it in that file, or release '\n                    'it on the server with: osmo-admin release %/%', owner.kind, owner.name,\n                    concat_ws(', ', owner.source, NULLIF(owner.path, ''),\n                        'commit ' || NULLIF(left(owner.commit, 12), '')),\n                    owner.kind, owner.name\n                    USING ERRCODE = 'check_violation', CONSTRAINT = 'owned_by_git', TABLE = TG_TABLE_NAME,\n                    DETAIL = jsonb_build_object('owner', 'git', 'source', owner.source, 'path', owner.path,\n                        'commit', owner.commit)::text;\n            ",
                    hash="6e6d4ef82e076e70d0757ecd438f319fefefbf03",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_owned_by_git_ef8b9",
                    table="pools_backend",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="backend",
            trigger=pgtrigger.compiler.Trigger(
                name="check_flavors",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        IF NEW.flavors = '[]' THEN RETURN NEW; END IF;\n        IF jsonb_typeof(NEW.flavors) <> 'array' OR EXISTS (\n            SELECT FROM jsonb_array_elements(NEW.flavors) flavor\n            WHERE jsonb_typeof(flavor) <> 'object'\n                OR NOT COALESCE(flavor ->> 'name' ~ '^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$', false)\n                OR flavor ->> 'name' = 'default'\n                OR COALESCE(jsonb_typeof(flavor -> 'node_labels'), '') <> 'object' OR flavor -> 'node_labels' = '{}'\n        ) THEN\n            RAISE EXCEPTION 'Each flavor of a cluster has a name and labels of its nodes.' USING ERRCODE = 'check_violation', CONSTRAINT = 'backend_flavors', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF (SELECT count(*) <> count(DISTINCT flavor ->> 'name') FROM jsonb_array_elements(NEW.flavors) flavor) THEN\n            RAISE EXCEPTION 'Each flavor of a cluster has its own name.' USING ERRCODE = 'check_violation', CONSTRAINT = 'backend_flavors', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NEW;\n    ",
                    hash="4ba71b4de4d7ae03aa006a1441bdf9ec92387691",
                    operation='INSERT OR UPDATE OF "flavors"',
                    pgid="pgtrigger_check_flavors_b279b",
                    table="pools_backend",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="backend",
            trigger=pgtrigger.compiler.Trigger(
                name="flavors_in_use",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (NEW.flavors IS DISTINCT FROM OLD.flavors)",
                    constraint="CONSTRAINT",
                    declare="DECLARE wrong record;",
                    func="\n        SELECT each ->> 'flavor' AS flavor, pool.name AS pool, backend.name AS backend INTO wrong\n            FROM pools_pool pool JOIN pools_backend backend ON backend.id = pool.backend_id,\n                jsonb_array_elements(pool.flavors) each\n            WHERE pool.backend_id = NEW.id AND NOT pool.archived AND each ->> 'flavor' <> 'default'\n                AND NOT backend.flavors @> jsonb_build_array(jsonb_build_object('name', each ->> 'flavor'))\n            LIMIT 1;\n        IF wrong.flavor IS NOT NULL THEN\n            RAISE EXCEPTION 'Cluster % keeps the flavor %, because pool % has a quota of it.', wrong.backend, wrong.flavor, wrong.pool USING ERRCODE = 'check_violation', CONSTRAINT = 'flavor_in_use', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NULL;\n    ",
                    hash="2a6ed07de830aa63c5b091c1785e27b6c757cdb7",
                    operation='UPDATE OF "flavors"',
                    pgid="pgtrigger_flavors_in_use_3dace",
                    table="pools_backend",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="backend",
            trigger=pgtrigger.compiler.Trigger(
                name="node_flavors_known",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (NEW.flavors IS DISTINCT FROM OLD.flavors)",
                    constraint="CONSTRAINT",
                    declare="DECLARE wrong record;",
                    func="\n    SELECT node.name, node.flavor, backend.name AS backend INTO wrong\n        FROM pools_node node JOIN pools_backend backend ON backend.id = node.backend_id\n        WHERE node.backend_id = NEW.id AND node.flavor <> 'default'\n            AND NOT backend.flavors @> jsonb_build_array(jsonb_build_object('name', node.flavor))\n        LIMIT 1;\n    IF wrong.name IS NOT NULL THEN\n        RAISE EXCEPTION 'The node % has the flavor %, which cluster % does not name.', wrong.name, wrong.flavor, wrong.backend USING ERRCODE = 'check_violation', CONSTRAINT = 'node_flavor_known', TABLE = TG_TABLE_NAME;\n    END IF;\n    RETURN NULL;\n",
                    hash="3cc94b080949cac4abe25112ff80aa0d78cd9afa",
                    operation='UPDATE OF "flavors"',
                    pgid="pgtrigger_node_flavors_known_3c786",
                    table="pools_backend",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="backend",
            trigger=pgtrigger.compiler.Trigger(
                name="move_tokens",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN RETURN NULL; END IF;\n        FOR concerned IN\n            SELECT id, 'backend/' || id AS subject FROM pools_backend WHERE id IN (NEW.id) ORDER BY id\n        LOOP\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = concerned.subject AND kind = 'plan'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES (concerned.subject, 'plan', 1, gen_random_uuid());\n        END IF;\n        noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');\n        IF position(',changed:' || concerned.id || ',' IN noted) = 0 THEN\n            PERFORM set_config('osmo.changes', noted || 'changed:' || concerned.id || ',', true);\n        END IF;\n        END LOOP; RETURN NULL;",
                    hash="851c9286d46fae45453c517d5bfc357c4c32792c",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_move_tokens_f94ef",
                    table="pools_backend",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="backend",
            trigger=pgtrigger.compiler.Trigger(
                name="delete_tokens",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="DELETE FROM pools_changetoken WHERE subject = 'backend/' || OLD.id; RETURN NULL;",
                    hash="05d0067ebd97bb345b0f7479ce9d91dbed4dbfa0",
                    operation="DELETE",
                    pgid="pgtrigger_delete_tokens_bac5e",
                    table="pools_backend",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="backend",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of backends cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="e47d352a03b99d660a18652f4b6375e46e5dc508",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_1b5c3",
                    table="pools_backend",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="changetoken",
            index=models.Index(fields=["subject", "kind"], name="change_token_of_subject"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="changetoken",
            trigger=pgtrigger.compiler.Trigger(
                name="protect_derived",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="IF pg_trigger_depth() < 2 THEN RAISE EXCEPTION 'The tokens of changes follow the changes; they cannot be edited.' USING ERRCODE = 'check_violation', CONSTRAINT = 'tokens_follow_changes', TABLE = TG_TABLE_NAME; END IF; RETURN NULL;",
                    hash="2f089e8690e523fb6dac978652930af8d6e1619e",
                    level="STATEMENT",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_protect_derived_e5cbf",
                    table="pools_changetoken",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="changetoken",
            trigger=pgtrigger.compiler.Trigger(
                name="note_own_moves",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (current_setting('osmo.own_moves', true) <> '')",
                    declare="DECLARE noted text;",
                    func="\n        noted := current_setting('osmo.own_moves');\n        IF position(',' || NEW.id || ':' IN noted) = 0 THEN\n            PERFORM set_config('osmo.own_moves',\n                noted || NEW.id || ':' || CASE TG_OP WHEN 'UPDATE' THEN OLD.stamp::text ELSE '' END || ',', true);\n        END IF;\n        RETURN NULL;\n    ",
                    hash="3a359b7f9c281bf756b896d4d75b60557a487ab6",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_note_own_moves_b128e",
                    table="pools_changetoken",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="changetoken",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of change tokens cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="db804fb6797d9f2389b270af815bdc8852634771",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_8ffd4",
                    table="pools_changetoken",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="configrevision",
            constraint=models.UniqueConstraint(fields=("config_type", "revision"), name="revision_once_per_type"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="configrevision",
            trigger=pgtrigger.compiler.Trigger(
                name="keeps_content",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n                    IF to_jsonb(NEW) - ARRAY['tags', 'deleted_at', 'deleted_by'] IS DISTINCT FROM to_jsonb(OLD) - ARRAY['tags', 'deleted_at', 'deleted_by'] THEN\n                        RAISE EXCEPTION 'Revision % cannot change, except its tags.', OLD.revision USING ERRCODE = 'check_violation', CONSTRAINT = 'revision_is_history', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    RETURN NEW;\n                ",
                    hash="aedf4a97f244406d6097710e2f7c8175e40af32c",
                    operation="UPDATE",
                    pgid="pgtrigger_keeps_content_5ec20",
                    table="pools_configrevision",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="configrevision",
            trigger=pgtrigger.compiler.Trigger(
                name="never_deleted",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'Revisions of the configuration cannot be deleted: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'never_deleted', TABLE = TG_TABLE_NAME;",
                    hash="863e5e16c37cdbf95bccb8a508f1201105f9f57b",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_never_deleted_303d1",
                    table="pools_configrevision",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="configrevision",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of revisions cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="8e9de4e9bf5c3711ecd4130b3c016b96a7485a9e",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_0e8b9",
                    table="pools_configrevision",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="configurationowner",
            constraint=models.UniqueConstraint(fields=("kind", "name"), name="one_owner"),
        ),
        migrations.AddConstraint(
            model_name="configurationowner",
            constraint=models.CheckConstraint(
                condition=models.Q(("source", ""), _negated=True),
                name="owner_has_source",
                violation_error_message="An object that Git owns has a source.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="configurationowner",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD); END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW); END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'owner.taken' WHEN 'DELETE' THEN 'owner.released' ELSE 'owner.updated' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'owner/' || COALESCE(NEW.kind, OLD.kind) || '/' || COALESCE(NEW.name, OLD.name), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    CASE WHEN COALESCE(NEW.kind, OLD.kind) = 'pool' THEN\n                    (SELECT id FROM pools_pool WHERE name = COALESCE(NEW.name, OLD.name)) END, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="8a58911398ebe5418a93b8c1c2d3167eec10fa7e",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_82b40",
                    table="pools_configurationowner",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="configurationowner",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of owners cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="9d3a3a08c0ee8d6447559fbece0672bd67ff7d0a",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_56fd8",
                    table="pools_configurationowner",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="gpuquota",
            constraint=models.CheckConstraint(
                condition=models.Q(("namespace__regex", "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")),
                name="gpu_quota_namespace_rule",
                violation_error_message="A namespace has at most 63 lower-case letters, digits and hyphens.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuquota",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['version', 'conditions', 'updated_at']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['version', 'conditions', 'updated_at']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE WHEN TG_OP = 'UPDATE' AND NEW.alerts > OLD.alerts THEN 'gpu_quota.alert' WHEN TG_OP = 'UPDATE' AND NEW.alerting <> OLD.alerting THEN 'gpu_quota.calm' ELSE CASE TG_OP WHEN 'INSERT' THEN 'gpu_quota.created' WHEN 'UPDATE' THEN 'gpu_quota.updated' ELSE 'gpu_quota.deleted' END END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'gpu_quota/' || COALESCE(NEW.namespace, OLD.namespace), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="1f5b91a06ce4886ebeb336f7dd10d5fab319ea44",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_0cd6e",
                    table="pools_gpuquota",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuquota",
            trigger=pgtrigger.compiler.Trigger(
                name="owned_by_git",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE subject text; owner pools_configurationowner%ROWTYPE;",
                    func="\n                IF TG_OP = 'UPDATE' AND (NEW.namespace, NEW.spec, NEW.source) = (OLD.namespace, OLD.spec, OLD.source) THEN RETURN NULL; END IF;\n                subject := COALESCE(OLD.namespace, NEW.namespace);\n                SELECT * INTO owner FROM pools_configurationowner\n                    WHERE kind = 'gpu_quota' AND name = subject ;\n                IF NOT FOUND OR owner.source = COALESCE(current_setting('osmo.source', true), '') THEN\n                    RETURN NULL;\n                END IF;\n                RAISE EXCEPTION '%/% is owned by Git (%), so it is read-only here. Change it in that file, or release '\n                    'it on the server with: osmo-admin release %/%', owner.kind, owner.name,\n                    concat_ws(', ', owner.source, NULLIF(owner.path, ''),\n                        'commit ' || NULLIF(left(owner.commit, 12), '')),\n                    owner.kind, owner.name\n                    USING ERRCODE = 'check_violation', CONSTRAINT = 'owned_by_git', TABLE = TG_TABLE_NAME,\n                    DETAIL = jsonb_build_object('owner', 'git', 'source', owner.source, 'path', owner.path,\n                        'commit', owner.commit)::text;\n            ",
                    hash="dc7eb3fbb1d3f43c18035a8e52c2fee1d43a27c2",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_owned_by_git_494c8",
                    table="pools_gpuquota",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuquota",
            trigger=pgtrigger.compiler.Trigger(
                name="move_tokens",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN RETURN NULL; END IF;\n        IF TG_OP = 'UPDATE' AND (NEW.namespace, NEW.spec) = (OLD.namespace, OLD.spec) THEN RETURN NULL; END IF;\n        FOR concerned IN SELECT DISTINCT unnest(ARRAY[NEW.namespace, OLD.namespace]) AS name LOOP\n            IF concerned.name IS NULL THEN CONTINUE; END IF;\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = 'namespace/' || concerned.name AND kind = 'work'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES ('namespace/' || concerned.name, 'work', 1, gen_random_uuid());\n        END IF;\n        END LOOP;\n        \n        FOR concerned IN\n            SELECT id, 'backend/' || id AS subject FROM pools_backend WHERE id IN (SELECT backend_id FROM pools_pool WHERE parent_id IS NULL AND NOT archived AND config ->> 'gpu_quota_namespace' IN (NEW.namespace, OLD.namespace)) ORDER BY id\n        LOOP\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = concerned.subject AND kind = 'plan'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES (concerned.subject, 'plan', 1, gen_random_uuid());\n        END IF;\n        noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');\n        IF position(',changed:' || concerned.id || ',' IN noted) = 0 THEN\n            PERFORM set_config('osmo.changes', noted || 'changed:' || concerned.id || ',', true);\n        END IF;\n        END LOOP; RETURN NULL;",
                    hash="a230ec3f5218de389138c4dc1a14cbf678a52e56",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_move_tokens_58676",
                    table="pools_gpuquota",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuquota",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of GPU quotas cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="b32921f014c73848cdbde68cc14087e7f6b6f3b7",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_c22cb",
                    table="pools_gpuquota",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="gpuusage",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("assumed_limits_tflops__gte", 0),
                    ("assumed_limits_vram__gte", 0),
                    ("assumed_requests_tflops__gte", 0),
                    ("assumed_requests_vram__gte", 0),
                    ("assumed_workers__gte", 0),
                    ("limits_tflops__gte", 0),
                    ("limits_vram__gte", 0),
                    ("requests_tflops__gte", 0),
                    ("requests_vram__gte", 0),
                    ("workers__gte", 0),
                ),
                name="gpu_usage_never_negative",
                violation_error_message="The usage of a namespace cannot be negative.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuusage",
            trigger=pgtrigger.compiler.Trigger(
                name="protect_counters",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n                    IF pg_trigger_depth() > 1 AND TG_OP <> 'DELETE' THEN RETURN NEW; END IF;\n                    IF TG_OP = 'INSERT' AND NEW.requests_tflops = 0 AND NEW.requests_vram = 0 AND NEW.limits_tflops = 0 AND NEW.limits_vram = 0 AND NEW.workers = 0 AND NEW.assumed_requests_tflops = 0 AND NEW.assumed_requests_vram = 0 AND NEW.assumed_limits_tflops = 0 AND NEW.assumed_limits_vram = 0 AND NEW.assumed_workers = 0 THEN\n                        RETURN NEW;\n                    END IF;\n                    IF TG_OP = 'UPDATE' AND NEW.namespace = OLD.namespace\n                        AND current_setting('osmo.recount', true) = 'on'\n                    THEN\n                        SELECT COALESCE(sum(count * request_tflops) FILTER (WHERE state = 'committed'), 0), COALESCE(sum(count * request_vram) FILTER (WHERE state = 'committed'), 0), COALESCE(sum(count * limit_tflops) FILTER (WHERE state = 'committed'), 0), COALESCE(sum(count * limit_vram) FILTER (WHERE state = 'committed'), 0), COALESCE(sum(1) FILTER (WHERE state = 'committed'), 0), COALESCE(sum(count * request_tflops) FILTER (WHERE state = 'assumed'), 0), COALESCE(sum(count * request_vram) FILTER (WHERE state = 'assumed'), 0), COALESCE(sum(count * limit_tflops) FILTER (WHERE state = 'assumed'), 0), COALESCE(sum(count * limit_vram) FILTER (WHERE state = 'assumed'), 0), COALESCE(sum(1) FILTER (WHERE state = 'assumed'), 0) INTO NEW.requests_tflops, NEW.requests_vram, NEW.limits_tflops, NEW.limits_vram, NEW.workers, NEW.assumed_requests_tflops, NEW.assumed_requests_vram, NEW.assumed_limits_tflops, NEW.assumed_limits_vram, NEW.assumed_workers\n                            FROM pools_gpuallocation WHERE namespace = OLD.namespace AND state <> 'released';\n                        RETURN NEW;\n                    END IF;\n                    RAISE EXCEPTION 'The usage of a namespace follows its allocations; it cannot be edited.' USING ERRCODE = 'check_violation', CONSTRAINT = 'gpu_usage_follows_allocations', TABLE = TG_TABLE_NAME;\n                ",
                    hash="76d9e6c4ec1265097e7e6be58eb53ea23dd616b7",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_protect_counters_1361b",
                    table="pools_gpuusage",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuusage",
            trigger=pgtrigger.compiler.Trigger(
                name="move_tokens",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN RETURN NULL; END IF;\n        \n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = 'namespace/' || COALESCE(NEW.namespace, OLD.namespace) AND kind = 'work'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES ('namespace/' || COALESCE(NEW.namespace, OLD.namespace), 'work', 1, gen_random_uuid());\n        END IF;\n        IF NEW.requests_tflops < OLD.requests_tflops OR NEW.requests_vram < OLD.requests_vram OR NEW.limits_tflops < OLD.limits_tflops OR NEW.limits_vram < OLD.limits_vram OR NEW.workers < OLD.workers OR NEW.assumed_requests_tflops < OLD.assumed_requests_tflops OR NEW.assumed_requests_vram < OLD.assumed_requests_vram OR NEW.assumed_limits_tflops < OLD.assumed_limits_tflops OR NEW.assumed_limits_vram < OLD.assumed_limits_vram OR NEW.assumed_workers < OLD.assumed_workers THEN\n            \n        noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');\n        IF position(',namespace:' || NEW.namespace || ',' IN noted) = 0 THEN\n            PERFORM set_config('osmo.changes', noted || 'namespace:' || NEW.namespace || ',', true);\n        END IF;\n        END IF; RETURN NULL;",
                    hash="5f818572e7e746824bc637f475d4ad5de01b4370",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_move_tokens_78762",
                    table="pools_gpuusage",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuusage",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of GPU usage cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="140f02cacde8d7683f147318dd37d804813cbb52",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_5d248",
                    table="pools_gpuusage",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="gpuusagesample",
            index=models.Index(fields=["namespace", "-at"], name="gpu_usage_sample_newest"),
        ),
        migrations.AddIndex(
            model_name="gpuusagesample",
            index=models.Index(fields=["at"], name="gpu_usage_sample_age"),
        ),
        migrations.AddConstraint(
            model_name="idempotencyrecord",
            constraint=models.UniqueConstraint(
                fields=("user_id", "token_id", "address", "key"), name="idempotency_key_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="kubernetessettings",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("access", "kubeconfig"),
                        ("kubeconfig_file", ""),
                        models.Q(("sealed_kubeconfig", ""), _negated=True),
                    ),
                    models.Q(
                        ("access", "file"),
                        ("sealed_kubeconfig", ""),
                        ("kubeconfig_file__regex", "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"),
                    ),
                    models.Q(("access", "in_cluster"), ("kubeconfig_file", ""), ("sealed_kubeconfig", "")),
                    _connector="OR",
                ),
                name="cluster_has_one_credential",
                violation_error_message="A cluster is reached by a kubeconfig, by a file's name, or from inside it.",
            ),
        ),
        migrations.AddConstraint(
            model_name="kubernetessettings",
            constraint=models.CheckConstraint(
                condition=models.Q(("mode__in", ("manage", "observe"))),
                name="cluster_mode_known",
                violation_error_message="A cluster is managed or observed.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="kubernetessettings",
            trigger=pgtrigger.compiler.Trigger(
                name="one_backend_per_namespace",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE other text; own_namespace text;",
                    func="\n        SELECT namespace INTO own_namespace FROM pools_backend WHERE id = NEW.backend_id;\n        SELECT backend.name INTO other\n            FROM pools_kubernetessettings settings JOIN pools_backend backend ON backend.id = settings.backend_id\n            WHERE settings.backend_id <> NEW.backend_id AND settings.server = NEW.server AND NEW.server <> ''\n                AND backend.namespace = own_namespace\n            LIMIT 1;\n        IF other IS NOT NULL THEN\n            RAISE EXCEPTION 'Backend % is on the same cluster and namespace already.', other USING ERRCODE = 'check_violation', CONSTRAINT = 'one_backend_per_namespace', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NULL;\n    ",
                    hash="2a32eeac2f2fb2a569f00dc976fd883fe0a96aaa",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_one_backend_per_namespace_ec6e1",
                    table="pools_kubernetessettings",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="kubernetessettings",
            trigger=pgtrigger.compiler.Trigger(
                name="mode_without_work",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (NEW.mode IS DISTINCT FROM OLD.mode)",
                    constraint="CONSTRAINT",
                    declare="DECLARE busy text;",
                    func="\n        SELECT root.name INTO busy FROM pools_reservation held\n            JOIN pools_pool leaf ON leaf.id = held.pool_id\n            JOIN pools_pool root ON root.id = COALESCE(leaf.parent_id, leaf.id)\n            WHERE root.backend_id = NEW.backend_id LIMIT 1;\n        IF busy IS NOT NULL THEN\n            RAISE EXCEPTION 'The mode of a cluster changes without work; pool % has some.', busy USING ERRCODE = 'check_violation', CONSTRAINT = 'mode_without_work', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NULL;\n    ",
                    hash="8c87ac70ffe1d0336428c053bfcc7a2cf054c352",
                    operation='UPDATE OF "mode"',
                    pgid="pgtrigger_mode_without_work_f5498",
                    table="pools_kubernetessettings",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="kubernetessettings",
            trigger=pgtrigger.compiler.Trigger(
                name="check_queue_pools",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        IF jsonb_typeof(NEW.queue_pools) <> 'object' THEN\n            RAISE EXCEPTION 'The pools of a cluster''s queues are by their names.' USING ERRCODE = 'check_violation', CONSTRAINT = 'cluster_queue_pools', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF EXISTS (\n            SELECT FROM jsonb_each(NEW.queue_pools) each\n            WHERE each.key !~ '^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$' OR jsonb_typeof(each.value) <> 'string'\n                OR NOT (each.value #>> '{}') ~ '^[a-z]([a-z0-9-]*[a-z0-9])?$'\n        ) THEN\n            RAISE EXCEPTION 'Each queue of a cluster that is named has the name of a pool.' USING ERRCODE = 'check_violation', CONSTRAINT = 'cluster_queue_pools', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NEW;\n    ",
                    hash="7ef546a55d2de1e74f7639747ad140285e6d49a0",
                    operation='INSERT OR UPDATE OF "queue_pools"',
                    pgid="pgtrigger_check_queue_pools_a6147",
                    table="pools_kubernetessettings",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="kubernetessettings",
            trigger=pgtrigger.compiler.Trigger(
                name="move_tokens",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN RETURN NULL; END IF;\n        FOR concerned IN\n            SELECT id, 'backend/' || id AS subject FROM pools_backend WHERE id IN (NEW.backend_id) ORDER BY id\n        LOOP\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = concerned.subject AND kind = 'plan'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES (concerned.subject, 'plan', 1, gen_random_uuid());\n        END IF;\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = concerned.subject AND kind = 'quotas'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES (concerned.subject, 'quotas', 1, gen_random_uuid());\n        END IF;\n        noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');\n        IF position(',changed:' || concerned.id || ',' IN noted) = 0 THEN\n            PERFORM set_config('osmo.changes', noted || 'changed:' || concerned.id || ',', true);\n        END IF;\n        END LOOP; RETURN NULL;",
                    hash="3df460b30d0c32933ef594c933d2ecb5f674a3a7",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_move_tokens_3eaf5",
                    table="pools_kubernetessettings",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="kubernetessettings",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD); END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW); END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'backend.connected' WHEN 'UPDATE' THEN 'backend.updated' ELSE 'backend.disconnected' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'backend/' || COALESCE((SELECT name FROM pools_backend WHERE id = COALESCE(NEW.backend_id, OLD.backend_id)), '?'), before_row - ARRAY['sealed_kubeconfig']::text[], after_row - ARRAY['sealed_kubeconfig']::text[],\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="557c6e55a52476f4c2197d0523ce531eb849a0de",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_ed668",
                    table="pools_kubernetessettings",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="kubernetessettings",
            trigger=pgtrigger.compiler.Trigger(
                name="owned_by_git",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE subject text; owner pools_configurationowner%ROWTYPE;",
                    func="\n                IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - ARRAY['sealed_kubeconfig', 'credential_mark', 'server'] = to_jsonb(OLD) - ARRAY['sealed_kubeconfig', 'credential_mark', 'server'] THEN RETURN NULL; END IF;\n                subject := (SELECT name FROM pools_backend WHERE id = COALESCE(OLD.backend_id, NEW.backend_id));\n                SELECT * INTO owner FROM pools_configurationowner\n                    WHERE kind = 'backend' AND name = subject ;\n                IF NOT FOUND OR owner.source = COALESCE(current_setting('osmo.source', true), '') THEN\n                    RETURN NULL;\n                END IF;\n                RAISE EXCEPTION '%/% is owned by Git (%), so it is read-only here. Change it in that file, or release '\n                    'it on the server with: osmo-admin release %/%', owner.kind, owner.name,\n                    concat_ws(', ', owner.source, NULLIF(owner.path, ''),\n                        'commit ' || NULLIF(left(owner.commit, 12), '')),\n                    owner.kind, owner.name\n                    USING ERRCODE = 'check_violation', CONSTRAINT = 'owned_by_git', TABLE = TG_TABLE_NAME,\n                    DETAIL = jsonb_build_object('owner', 'git', 'source', owner.source, 'path', owner.path,\n                        'commit', owner.commit)::text;\n            ",
                    hash="c50049653cf0c78684b70632a4f983188482378b",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_owned_by_git_fe78c",
                    table="pools_kubernetessettings",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="kubernetessettings",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of clusters cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="3a192dc30c8819dcb1471f412afc0f96b6896fc8",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_141dd",
                    table="pools_kubernetessettings",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="cohort",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("name__regex", "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$"),
                    models.Q(("name__contains", "--"), _negated=True),
                ),
                name="cohort_name_rule",
                violation_error_message="A cohort's name has lower-case letters, digits and single hyphens.",
            ),
        ),
        migrations.AddConstraint(
            model_name="cohort",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("weight", 0), models.Q(("weight__gt", 0), ("weight__lte", 1000000000)), _connector="OR"
                ),
                name="cohort_weight",
                violation_error_message="A weight is 0 or more.",
            ),
        ),
        migrations.AddConstraint(
            model_name="cohort",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("explicit", True),
                    models.Q(("parent__isnull", True), ("quotas", {}), ("weight", 1)),
                    _connector="OR",
                ),
                name="cohort_named_is_bare",
                violation_error_message="An implicit cohort has no quota, no limits and no parent.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="cohort",
            trigger=pgtrigger.compiler.Trigger(
                name="no_cycle",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE cycle_names text[];",
                    func="\n        IF NEW.parent_id IS NULL THEN RETURN NEW; END IF;\n        PERFORM pg_advisory_xact_lock(1440);\n        WITH RECURSIVE path (id, parent_id, names) AS (\n            SELECT id, parent_id, ARRAY[NEW.name, name] FROM pools_cohort WHERE id = NEW.parent_id\n            UNION ALL\n            SELECT above.id, above.parent_id, path.names || above.name\n            FROM path JOIN pools_cohort above ON above.id = path.parent_id\n            WHERE path.id <> NEW.id AND above.name <> ALL (path.names[2:])\n        )\n        SELECT names INTO cycle_names FROM path WHERE id = NEW.id;\n        IF cycle_names IS NOT NULL THEN\n            RAISE EXCEPTION 'The parents of cohorts would form a cycle: %.', array_to_string(cycle_names, ' → ') USING ERRCODE = 'check_violation', CONSTRAINT = 'cohort_no_circle', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NEW;\n    ",
                    hash="134366877f9e67f9a927af434888629198e3c9cf",
                    operation='INSERT OR UPDATE OF "parent_id"',
                    pgid="pgtrigger_no_cycle_69888",
                    table="pools_cohort",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="cohort",
            trigger=pgtrigger.compiler.Trigger(
                name="rules",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE wrong text;",
                    func="\n        IF jsonb_typeof(NEW.quotas) <> 'object' THEN\n            RAISE EXCEPTION 'The quotas of a cohort must be an object with keys flavor/resource.' USING ERRCODE = 'check_violation', CONSTRAINT = 'cohort_quotas', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF (SELECT count(*) FROM jsonb_object_keys(NEW.quotas)) > 1024 THEN\n            RAISE EXCEPTION 'A cohort has quotas of at most 1024 resources.' USING ERRCODE = 'check_violation', CONSTRAINT = 'cohort_quotas', TABLE = TG_TABLE_NAME;\n        END IF;\n        SELECT key INTO wrong FROM jsonb_each(NEW.quotas)\n            WHERE key NOT LIKE '_%/_%' OR jsonb_typeof(value) <> 'object'\n                OR COALESCE(jsonb_typeof(value -> 'nominal'), '') <> 'number' LIMIT 1;\n        IF wrong IS NOT NULL THEN\n            RAISE EXCEPTION '% is not a valid flavor/resource with a nominal quota.', wrong USING ERRCODE = 'check_violation', CONSTRAINT = 'cohort_quotas', TABLE = TG_TABLE_NAME;\n        END IF;\n        SELECT quota.key || ' ' || amount.key INTO wrong\n            FROM jsonb_each(NEW.quotas) quota, jsonb_each_text(quota.value) amount\n            WHERE amount.key NOT IN ('nominal', 'borrowing_limit', 'lending_limit') OR amount.value !~ '^[0-9]{1,16}$'\n            LIMIT 1;\n        IF wrong IS NOT NULL THEN\n            RAISE EXCEPTION '% is not a whole number of 0 or more.', wrong USING ERRCODE = 'check_violation', CONSTRAINT = 'cohort_no_negative_quota', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF NEW.parent_id IS NULL AND jsonb_path_exists(\n            NEW.quotas, '$.*.keyvalue() ? (@.key != \"nominal\" && @.value != null)'\n        ) THEN\n            RAISE EXCEPTION 'Cohort % has limits but no parent.', NEW.name USING ERRCODE = 'check_violation', CONSTRAINT = 'cohort_limits_need_parent', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF TG_OP = 'UPDATE' THEN\n            IF to_jsonb(NEW) - ARRAY['version', 'updated_at', 'inactive_since']\n                IS DISTINCT FROM to_jsonb(OLD) - ARRAY['version', 'updated_at', 'inactive_since']\n            THEN\n                NEW.version := OLD.version + 1;\n                NEW.updated_at := clock_timestamp();\n            ELSE\n                NEW.version := OLD.version;\n            END IF;\n        END IF;\n        RETURN NEW;\n    ",
                    hash="4055477ab07d0a039b59739bc41913ec99974fe3",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_rules_9e996",
                    table="pools_cohort",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="cohort",
            trigger=pgtrigger.compiler.Trigger(
                name="move_tokens",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN RETURN NULL; END IF;\n        FOR concerned IN\n            SELECT id, 'backend/' || id AS subject FROM pools_backend WHERE id IN (\n        WITH RECURSIVE above (id, parent_id) AS (\n            SELECT id, parent_id FROM pools_cohort WHERE id IN (NEW.id, OLD.id, NEW.parent_id, OLD.parent_id)\n            UNION SELECT parent.id, parent.parent_id FROM above JOIN pools_cohort parent ON parent.id = above.parent_id\n        ), tree (id) AS (\n            SELECT id FROM above\n            UNION SELECT child.id FROM tree JOIN pools_cohort child ON child.parent_id = tree.id\n        )\n        SELECT backend_id FROM pools_pool WHERE cohort_id IN (SELECT id FROM tree)\n    ) ORDER BY id\n        LOOP\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = concerned.subject AND kind = 'plan'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES (concerned.subject, 'plan', 1, gen_random_uuid());\n        END IF;\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = concerned.subject AND kind = 'quotas'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES (concerned.subject, 'quotas', 1, gen_random_uuid());\n        END IF;\n        noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');\n        IF position(',changed:' || concerned.id || ',' IN noted) = 0 THEN\n            PERFORM set_config('osmo.changes', noted || 'changed:' || concerned.id || ',', true);\n        END IF;\n        END LOOP;\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = 'cohorts' AND kind = 'quotas'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES ('cohorts', 'quotas', 1, gen_random_uuid());\n        END IF; RETURN NULL;",
                    hash="a3c28c5f0cbd9f712607a90b7eac66e36b607ab8",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_move_tokens_f078b",
                    table="pools_cohort",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="cohort",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['version', 'updated_at']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['version', 'updated_at']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := \n    CASE\n        WHEN TG_OP = 'INSERT' THEN CASE WHEN NEW.explicit THEN 'cohort.created' ELSE 'cohort.named' END\n        WHEN TG_OP = 'DELETE' THEN CASE WHEN OLD.explicit THEN 'cohort.deleted' ELSE 'cohort.forgotten' END\n        WHEN NEW.explicit AND NOT OLD.explicit THEN 'cohort.created'\n        WHEN NEW.parent_id IS DISTINCT FROM OLD.parent_id THEN 'cohort.moved'\n        WHEN OLD.inactive_since IS NULL AND NEW.inactive_since IS NOT NULL THEN 'cohort.inactive'\n        WHEN OLD.inactive_since IS NOT NULL AND NEW.inactive_since IS NULL THEN 'cohort.active'\n        ELSE 'cohort.updated'\n    END\n;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'cohort/' || COALESCE(NEW.name, OLD.name), before_row || jsonb_build_object('parent', (SELECT name FROM pools_cohort WHERE id = OLD.parent_id)), after_row || jsonb_build_object('parent', (SELECT name FROM pools_cohort WHERE id = NEW.parent_id)),\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="1fc08b6e2d2e15ab74a5aa088108b281d436b097",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_1aaa6",
                    table="pools_cohort",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="cohort",
            trigger=pgtrigger.compiler.Trigger(
                name="owned_by_git",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE subject text; owner pools_configurationowner%ROWTYPE;",
                    func="\n                IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - ARRAY['version', 'updated_at', 'inactive_since'] = to_jsonb(OLD) - ARRAY['version', 'updated_at', 'inactive_since'] THEN RETURN NULL; END IF;\n                subject := COALESCE(OLD.name, NEW.name);\n                SELECT * INTO owner FROM pools_configurationowner\n                    WHERE kind = 'cohort' AND name = subject ;\n                IF NOT FOUND OR owner.source = COALESCE(current_setting('osmo.source', true), '') THEN\n                    RETURN NULL;\n                END IF;\n                RAISE EXCEPTION '%/% is owned by Git (%), so it is read-only here. Change it in that file, or release '\n                    'it on the server with: osmo-admin release %/%', owner.kind, owner.name,\n                    concat_ws(', ', owner.source, NULLIF(owner.path, ''),\n                        'commit ' || NULLIF(left(owner.commit, 12), '')),\n                    owner.kind, owner.name\n                    USING ERRCODE = 'check_violation', CONSTRAINT = 'owned_by_git', TABLE = TG_TABLE_NAME,\n                    DETAIL = jsonb_build_object('owner', 'git', 'source', owner.source, 'path', owner.path,\n                        'commit', owner.commit)::text;\n            ",
                    hash="24c9916c1eb06f9adfc3be04ca1b91d421e8c3ed",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_owned_by_git_552da",
                    table="pools_cohort",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="cohort",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of cohorts cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="921b24138befa061c61cd78db60f6635be1eb362",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_a20b6",
                    table="pools_cohort",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="gpuallocation",
            index=models.Index(fields=["namespace", "-id"], name="gpu_allocation_newest"),
        ),
        migrations.AddIndex(
            model_name="gpuallocation",
            index=models.Index(fields=["namespace", "name"], name="gpu_allocation_by_name"),
        ),
        migrations.AddIndex(
            model_name="gpuallocation",
            index=models.Index(
                condition=models.Q(("state", "released"), _negated=True),
                fields=["holder"],
                name="gpu_allocation_holder",
            ),
        ),
        migrations.AddIndex(
            model_name="gpuallocation",
            index=models.Index(
                condition=models.Q(
                    models.Q(("state", "released"), _negated=True), models.Q(("uncounted", ""), _negated=True)
                ),
                fields=["namespace"],
                name="gpu_allocation_uncounted",
            ),
        ),
        migrations.AddIndex(
            model_name="gpuallocation",
            index=models.Index(
                condition=models.Q(("state", "assumed")), fields=["expires_at"], name="gpu_allocation_expiry"
            ),
        ),
        migrations.AddIndex(
            model_name="gpuallocation",
            index=models.Index(
                condition=models.Q(("released_at__isnull", False)),
                fields=["released_at"],
                name="gpu_allocation_released",
            ),
        ),
        migrations.AddConstraint(
            model_name="gpuallocation",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "released"), _negated=True),
                fields=("namespace", "name"),
                name="gpu_allocation_live_once",
                violation_error_message="An active allocation with that id exists already.",
            ),
        ),
        migrations.AddConstraint(
            model_name="gpuallocation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("count__gte", 1),
                    ("limit_tflops__gte", 0),
                    ("limit_vram__gte", 0),
                    ("request_tflops__gte", 0),
                    ("request_vram__gte", 0),
                ),
                name="gpu_allocation_amounts",
                violation_error_message="An allocation has at least one GPU and no negative amount.",
            ),
        ),
        migrations.AddConstraint(
            model_name="gpuallocation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state__in", ["assumed", "committed", "released"]),
                    models.Q(
                        models.Q(("expires_at__isnull", False), ("state", "assumed")),
                        models.Q(models.Q(("state", "assumed"), _negated=True), ("expires_at__isnull", True)),
                        _connector="OR",
                    ),
                ),
                name="gpu_allocation_state",
                violation_error_message="An allocation is assumed with an expiry, committed, or released.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuallocation",
            trigger=pgtrigger.compiler.Trigger(
                name="one_way",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n                    IF OLD.state = 'released' THEN\n                        RAISE EXCEPTION 'Allocation % was released and cannot change.', OLD.name USING ERRCODE = 'check_violation', CONSTRAINT = 'gpu_allocation_one_way', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    IF OLD.state = 'committed' AND NEW.state = 'assumed' THEN\n                        RAISE EXCEPTION 'Allocation % is committed and cannot become assumed again.', OLD.name USING ERRCODE = 'check_violation', CONSTRAINT = 'gpu_allocation_one_way', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    IF (NEW.namespace, NEW.name, NEW.source) IS DISTINCT FROM (OLD.namespace, OLD.name, OLD.source) THEN\n                        RAISE EXCEPTION 'The namespace, id and source of allocation % cannot change.', OLD.name USING ERRCODE = 'check_violation', CONSTRAINT = 'gpu_allocation_one_way', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    NEW.changed_at := clock_timestamp();\n                    IF NEW.state = 'released' THEN\n                        NEW.released_at := clock_timestamp();\n                        NEW.expires_at := NULL;\n                    END IF;\n                    RETURN NEW;\n                ",
                    hash="b08d7317faa207cec2a8015140b5d9d6346fc01b",
                    operation="UPDATE",
                    pgid="pgtrigger_one_way_dbf38",
                    table="pools_gpuallocation",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuallocation",
            trigger=pgtrigger.compiler.Trigger(
                name="count_insert",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n            \n        INSERT INTO pools_gpuusage (namespace, requests_tflops, requests_vram, limits_tflops, limits_vram, workers, assumed_requests_tflops, assumed_requests_vram, assumed_limits_tflops, assumed_limits_vram, assumed_workers, families, revision)\n        SELECT DISTINCT namespace, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'DDDD', 0 FROM new_rows ORDER BY 1 ON CONFLICT DO NOTHING;\n    \n            UPDATE pools_gpuusage usage SET requests_tflops = usage.requests_tflops + moved.requests_tflops, requests_vram = usage.requests_vram + moved.requests_vram, limits_tflops = usage.limits_tflops + moved.limits_tflops, limits_vram = usage.limits_vram + moved.limits_vram, workers = usage.workers + moved.workers, assumed_requests_tflops = usage.assumed_requests_tflops + moved.assumed_requests_tflops, assumed_requests_vram = usage.assumed_requests_vram + moved.assumed_requests_vram, assumed_limits_tflops = usage.assumed_limits_tflops + moved.assumed_limits_tflops, assumed_limits_vram = usage.assumed_limits_vram + moved.assumed_limits_vram, assumed_workers = usage.assumed_workers + moved.assumed_workers, families = CASE WHEN usage.requests_tflops + usage.assumed_requests_tflops = 0 THEN COALESCE(moved.f1, substr(usage.families, 1, 1)) ELSE substr(usage.families, 1, 1) END || CASE WHEN usage.requests_vram + usage.assumed_requests_vram = 0 THEN COALESCE(moved.f2, substr(usage.families, 2, 1)) ELSE substr(usage.families, 2, 1) END || CASE WHEN usage.limits_tflops + usage.assumed_limits_tflops = 0 THEN COALESCE(moved.f3, substr(usage.families, 3, 1)) ELSE substr(usage.families, 3, 1) END || CASE WHEN usage.limits_vram + usage.assumed_limits_vram = 0 THEN COALESCE(moved.f4, substr(usage.families, 4, 1)) ELSE substr(usage.families, 4, 1) END,\n                revision = usage.revision + 1, changed_at = clock_timestamp()\n            FROM (\n                SELECT namespace, sum(requests_tflops) AS requests_tflops, sum(requests_vram) AS requests_vram, sum(limits_tflops) AS limits_tflops, sum(limits_vram) AS limits_vram, sum(workers) AS workers, sum(assumed_requests_tflops) AS assumed_requests_tflops, sum(assumed_requests_vram) AS assumed_requests_vram, sum(assumed_limits_tflops) AS assumed_limits_tflops, sum(assumed_limits_vram) AS assumed_limits_vram, sum(assumed_workers) AS assumed_workers, min(f1) AS f1, min(f2) AS f2, min(f3) AS f3, min(f4) AS f4 FROM (SELECT namespace, CASE WHEN state = 'committed' THEN 1 ELSE 0 END * count * request_tflops AS requests_tflops, CASE WHEN state = 'committed' THEN 1 ELSE 0 END * count * request_vram AS requests_vram, CASE WHEN state = 'committed' THEN 1 ELSE 0 END * count * limit_tflops AS limits_tflops, CASE WHEN state = 'committed' THEN 1 ELSE 0 END * count * limit_vram AS limits_vram, CASE WHEN state = 'committed' THEN 1 ELSE 0 END AS workers, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END * count * request_tflops AS assumed_requests_tflops, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END * count * request_vram AS assumed_requests_vram, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END * count * limit_tflops AS assumed_limits_tflops, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END * count * limit_vram AS assumed_limits_vram, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END AS assumed_workers, CASE WHEN state <> 'released' AND request_tflops > 0 THEN substr(families, 1, 1) END AS f1, CASE WHEN state <> 'released' AND request_vram > 0 THEN substr(families, 2, 1) END AS f2, CASE WHEN state <> 'released' AND limit_tflops > 0 THEN substr(families, 3, 1) END AS f3, CASE WHEN state <> 'released' AND limit_vram > 0 THEN substr(families, 4, 1) END AS f4 FROM new_rows) rows GROUP BY namespace\n            ) moved\n            WHERE usage.namespace = moved.namespace;\n            RETURN NULL;\n        ",
                    hash="33c5d76035f9c11ca8b746a00ce3f3a08b22cb55",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_count_insert_7a38f",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="pools_gpuallocation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuallocation",
            trigger=pgtrigger.compiler.Trigger(
                name="count_update",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n            \n            UPDATE pools_gpuusage usage SET requests_tflops = usage.requests_tflops + moved.requests_tflops, requests_vram = usage.requests_vram + moved.requests_vram, limits_tflops = usage.limits_tflops + moved.limits_tflops, limits_vram = usage.limits_vram + moved.limits_vram, workers = usage.workers + moved.workers, assumed_requests_tflops = usage.assumed_requests_tflops + moved.assumed_requests_tflops, assumed_requests_vram = usage.assumed_requests_vram + moved.assumed_requests_vram, assumed_limits_tflops = usage.assumed_limits_tflops + moved.assumed_limits_tflops, assumed_limits_vram = usage.assumed_limits_vram + moved.assumed_limits_vram, assumed_workers = usage.assumed_workers + moved.assumed_workers, families = CASE WHEN usage.requests_tflops + usage.assumed_requests_tflops = 0 THEN COALESCE(moved.f1, substr(usage.families, 1, 1)) ELSE substr(usage.families, 1, 1) END || CASE WHEN usage.requests_vram + usage.assumed_requests_vram = 0 THEN COALESCE(moved.f2, substr(usage.families, 2, 1)) ELSE substr(usage.families, 2, 1) END || CASE WHEN usage.limits_tflops + usage.assumed_limits_tflops = 0 THEN COALESCE(moved.f3, substr(usage.families, 3, 1)) ELSE substr(usage.families, 3, 1) END || CASE WHEN usage.limits_vram + usage.assumed_limits_vram = 0 THEN COALESCE(moved.f4, substr(usage.families, 4, 1)) ELSE substr(usage.families, 4, 1) END,\n                revision = usage.revision + 1, changed_at = clock_timestamp()\n            FROM (\n                SELECT namespace, sum(requests_tflops) AS requests_tflops, sum(requests_vram) AS requests_vram, sum(limits_tflops) AS limits_tflops, sum(limits_vram) AS limits_vram, sum(workers) AS workers, sum(assumed_requests_tflops) AS assumed_requests_tflops, sum(assumed_requests_vram) AS assumed_requests_vram, sum(assumed_limits_tflops) AS assumed_limits_tflops, sum(assumed_limits_vram) AS assumed_limits_vram, sum(assumed_workers) AS assumed_workers, min(f1) AS f1, min(f2) AS f2, min(f3) AS f3, min(f4) AS f4 FROM (SELECT namespace, CASE WHEN state = 'committed' THEN -1 ELSE 0 END * count * request_tflops AS requests_tflops, CASE WHEN state = 'committed' THEN -1 ELSE 0 END * count * request_vram AS requests_vram, CASE WHEN state = 'committed' THEN -1 ELSE 0 END * count * limit_tflops AS limits_tflops, CASE WHEN state = 'committed' THEN -1 ELSE 0 END * count * limit_vram AS limits_vram, CASE WHEN state = 'committed' THEN -1 ELSE 0 END AS workers, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END * count * request_tflops AS assumed_requests_tflops, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END * count * request_vram AS assumed_requests_vram, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END * count * limit_tflops AS assumed_limits_tflops, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END * count * limit_vram AS assumed_limits_vram, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END AS assumed_workers, CASE WHEN state <> 'released' AND request_tflops > 0 THEN substr(families, 1, 1) END AS f1, CASE WHEN state <> 'released' AND request_vram > 0 THEN substr(families, 2, 1) END AS f2, CASE WHEN state <> 'released' AND limit_tflops > 0 THEN substr(families, 3, 1) END AS f3, CASE WHEN state <> 'released' AND limit_vram > 0 THEN substr(families, 4, 1) END AS f4 FROM old_rows UNION ALL SELECT namespace, CASE WHEN state = 'committed' THEN 1 ELSE 0 END * count * request_tflops AS requests_tflops, CASE WHEN state = 'committed' THEN 1 ELSE 0 END * count * request_vram AS requests_vram, CASE WHEN state = 'committed' THEN 1 ELSE 0 END * count * limit_tflops AS limits_tflops, CASE WHEN state = 'committed' THEN 1 ELSE 0 END * count * limit_vram AS limits_vram, CASE WHEN state = 'committed' THEN 1 ELSE 0 END AS workers, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END * count * request_tflops AS assumed_requests_tflops, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END * count * request_vram AS assumed_requests_vram, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END * count * limit_tflops AS assumed_limits_tflops, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END * count * limit_vram AS assumed_limits_vram, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END AS assumed_workers, CASE WHEN state <> 'released' AND request_tflops > 0 THEN substr(families, 1, 1) END AS f1, CASE WHEN state <> 'released' AND request_vram > 0 THEN substr(families, 2, 1) END AS f2, CASE WHEN state <> 'released' AND limit_tflops > 0 THEN substr(families, 3, 1) END AS f3, CASE WHEN state <> 'released' AND limit_vram > 0 THEN substr(families, 4, 1) END AS f4 FROM new_rows) rows GROUP BY namespace\n            ) moved\n            WHERE usage.namespace = moved.namespace;\n            RETURN NULL;\n        ",
                    hash="3d50226d35648da7a5726986d8fe0622b65ebe1b",
                    level="STATEMENT",
                    operation="UPDATE",
                    pgid="pgtrigger_count_update_add44",
                    referencing="REFERENCING OLD TABLE AS old_rows  NEW TABLE AS new_rows ",
                    table="pools_gpuallocation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuallocation",
            trigger=pgtrigger.compiler.Trigger(
                name="count_delete",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n            \n            UPDATE pools_gpuusage usage SET requests_tflops = usage.requests_tflops + moved.requests_tflops, requests_vram = usage.requests_vram + moved.requests_vram, limits_tflops = usage.limits_tflops + moved.limits_tflops, limits_vram = usage.limits_vram + moved.limits_vram, workers = usage.workers + moved.workers, assumed_requests_tflops = usage.assumed_requests_tflops + moved.assumed_requests_tflops, assumed_requests_vram = usage.assumed_requests_vram + moved.assumed_requests_vram, assumed_limits_tflops = usage.assumed_limits_tflops + moved.assumed_limits_tflops, assumed_limits_vram = usage.assumed_limits_vram + moved.assumed_limits_vram, assumed_workers = usage.assumed_workers + moved.assumed_workers, families = CASE WHEN usage.requests_tflops + usage.assumed_requests_tflops = 0 THEN COALESCE(moved.f1, substr(usage.families, 1, 1)) ELSE substr(usage.families, 1, 1) END || CASE WHEN usage.requests_vram + usage.assumed_requests_vram = 0 THEN COALESCE(moved.f2, substr(usage.families, 2, 1)) ELSE substr(usage.families, 2, 1) END || CASE WHEN usage.limits_tflops + usage.assumed_limits_tflops = 0 THEN COALESCE(moved.f3, substr(usage.families, 3, 1)) ELSE substr(usage.families, 3, 1) END || CASE WHEN usage.limits_vram + usage.assumed_limits_vram = 0 THEN COALESCE(moved.f4, substr(usage.families, 4, 1)) ELSE substr(usage.families, 4, 1) END,\n                revision = usage.revision + 1, changed_at = clock_timestamp()\n            FROM (\n                SELECT namespace, sum(requests_tflops) AS requests_tflops, sum(requests_vram) AS requests_vram, sum(limits_tflops) AS limits_tflops, sum(limits_vram) AS limits_vram, sum(workers) AS workers, sum(assumed_requests_tflops) AS assumed_requests_tflops, sum(assumed_requests_vram) AS assumed_requests_vram, sum(assumed_limits_tflops) AS assumed_limits_tflops, sum(assumed_limits_vram) AS assumed_limits_vram, sum(assumed_workers) AS assumed_workers, min(f1) AS f1, min(f2) AS f2, min(f3) AS f3, min(f4) AS f4 FROM (SELECT namespace, CASE WHEN state = 'committed' THEN -1 ELSE 0 END * count * request_tflops AS requests_tflops, CASE WHEN state = 'committed' THEN -1 ELSE 0 END * count * request_vram AS requests_vram, CASE WHEN state = 'committed' THEN -1 ELSE 0 END * count * limit_tflops AS limits_tflops, CASE WHEN state = 'committed' THEN -1 ELSE 0 END * count * limit_vram AS limits_vram, CASE WHEN state = 'committed' THEN -1 ELSE 0 END AS workers, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END * count * request_tflops AS assumed_requests_tflops, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END * count * request_vram AS assumed_requests_vram, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END * count * limit_tflops AS assumed_limits_tflops, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END * count * limit_vram AS assumed_limits_vram, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END AS assumed_workers, CASE WHEN state <> 'released' AND request_tflops > 0 THEN substr(families, 1, 1) END AS f1, CASE WHEN state <> 'released' AND request_vram > 0 THEN substr(families, 2, 1) END AS f2, CASE WHEN state <> 'released' AND limit_tflops > 0 THEN substr(families, 3, 1) END AS f3, CASE WHEN state <> 'released' AND limit_vram > 0 THEN substr(families, 4, 1) END AS f4 FROM old_rows) rows GROUP BY namespace\n            ) moved\n            WHERE usage.namespace = moved.namespace;\n            RETURN NULL;\n        ",
                    hash="81aade7969a44448d5f67b504a55d3bec8292900",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_count_delete_7571e",
                    referencing="REFERENCING OLD TABLE AS old_rows ",
                    table="pools_gpuallocation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuallocation",
            trigger=pgtrigger.compiler.Trigger(
                name="release_first",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (OLD.state <> 'released')",
                    func="RAISE EXCEPTION 'Allocation % is not released and cannot be deleted.', OLD.name USING ERRCODE = 'check_violation', CONSTRAINT = 'gpu_allocation_release_first', TABLE = TG_TABLE_NAME;",
                    hash="56565f8de8e591fea22ff7012ae61cd85a00a727",
                    operation="DELETE",
                    pgid="pgtrigger_release_first_bdb5d",
                    table="pools_gpuallocation",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuallocation",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="IF COALESCE(NEW.source, OLD.source) <> 'api' THEN RETURN NULL; END IF; \n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['changed_at', 'families', 'written', 'uncounted']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['changed_at', 'families', 'written', 'uncounted']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE WHEN TG_OP = 'INSERT' THEN 'gpu_allocation.' || NEW.state WHEN TG_OP = 'DELETE' THEN 'gpu_allocation.deleted' WHEN NEW.state <> OLD.state THEN 'gpu_allocation.' || NEW.state ELSE 'gpu_allocation.adjusted' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'gpu_allocation/' || COALESCE(NEW.namespace, OLD.namespace) || '/' || COALESCE(NEW.name, OLD.name), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="565044a5cd3f90467b7c8085d116a7f2ef99b07b",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_f0b32",
                    table="pools_gpuallocation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuallocation",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of GPU allocations cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="5299266d08a725bccb1cc5b6f8507f7ee4f67e85",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_b8506",
                    table="pools_gpuallocation",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="inboxread",
            constraint=models.UniqueConstraint(
                fields=("person", "notice"),
                name="inbox_read_once",
                violation_error_message="This person has read this news already.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="inboxread",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of what was read cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="b39edd3e3074d640fb45cf8513b0cf22f11ac65e",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_880f5",
                    table="pools_inboxread",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="leafusage",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("committed__gte", 0),
                    ("live_workflows__gte", 0),
                    ("total_usage__gte", models.F("used")),
                    ("used__gte", 0),
                ),
                name="usage_never_negative",
                violation_error_message="Usage cannot be negative.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="leafusage",
            trigger=pgtrigger.compiler.Trigger(
                name="protect_derived",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="IF pg_trigger_depth() < 2 THEN RAISE EXCEPTION 'Usage counters follow the reservations; they cannot be edited.' USING ERRCODE = 'check_violation', CONSTRAINT = 'usage_follows_reservations', TABLE = TG_TABLE_NAME; END IF; RETURN NULL;",
                    hash="68bdf99974757efffe9d31ed440649719bc5d88a",
                    level="STATEMENT",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_protect_derived_009e2",
                    table="pools_leafusage",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="leafusage",
            trigger=pgtrigger.compiler.Trigger(
                name="move_tokens",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN RETURN NULL; END IF;\n        FOR concerned IN\n            SELECT id, 'backend/' || id AS subject FROM pools_backend WHERE id IN (SELECT root.backend_id FROM pools_pool pool JOIN pools_pool root ON root.id = COALESCE(pool.parent_id, pool.id) WHERE pool.id = NEW.pool_id) ORDER BY id\n        LOOP\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = concerned.subject AND kind = 'work'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES (concerned.subject, 'work', 1, gen_random_uuid());\n        END IF;\n        END LOOP; RETURN NULL;",
                    hash="74b6cf19070f7a26b918e2b3bd3438914bba4d6c",
                    operation="UPDATE",
                    pgid="pgtrigger_move_tokens_d6b39",
                    table="pools_leafusage",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="leafusage",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of usage counters cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="7c08db3ab2c2f9032c78a516172c99aa3de610b8",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_1ef9c",
                    table="pools_leafusage",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="pool",
            index=models.Index(
                condition=models.Q(("quota_until__isnull", False)), fields=["quota_until"], name="pool_quota_until"
            ),
        ),
        migrations.AddIndex(
            model_name="pool",
            index=models.Index(
                django.db.models.fields.json.KeyTextTransform("gpu_quota_namespace", "config"),
                condition=models.Q(("archived", False), ("backend__isnull", False), ("parent__isnull", True)),
                name="pool_of_gpu_namespace",
            ),
        ),
        migrations.AddConstraint(
            model_name="pool",
            constraint=models.UniqueConstraint(fields=("parent", "subpool_name"), name="subpool_name_once_per_parent"),
        ),
        migrations.AddConstraint(
            model_name="pool",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("backend__isnull", False),
                        ("last_quota__isnull", True),
                        ("parent__isnull", True),
                        ("subpool_name__isnull", True),
                        ("subpool_state__isnull", True),
                    ),
                    models.Q(
                        ("archived", False),
                        ("backend__isnull", True),
                        ("cohort__isnull", True),
                        ("config", {}),
                        ("description", ""),
                        ("enable_maintenance", False),
                        ("guarantee__isnull", True),
                        ("last_quota__gte", 0),
                        ("maximum__isnull", True),
                        ("parent__isnull", False),
                        ("subpool_name__isnull", False),
                        (
                            "subpool_state__in",
                            [
                                pools.domain.subpool_lifecycle.SubpoolState["ACTIVE"],
                                pools.domain.subpool_lifecycle.SubpoolState["DELETING"],
                                pools.domain.subpool_lifecycle.SubpoolState["ARCHIVED"],
                            ],
                        ),
                        ("weight__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="pool_is_root_or_slice",
                violation_error_message="A subpool owns only name, quota and state; all else belongs to its parent.",
            ),
        ),
        migrations.AddConstraint(
            model_name="pool",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("quota_after__isnull", True), ("quota_until__isnull", True)),
                    models.Q(
                        ("parent__isnull", False),
                        ("quota_after__gte", 0),
                        ("quota_after__isnull", False),
                        ("quota_after__lt", models.F("last_quota")),
                        ("quota_until__isnull", False),
                        ("subpool_state", pools.domain.subpool_lifecycle.SubpoolState["ACTIVE"]),
                    ),
                    _connector="OR",
                ),
                name="temporary_quota_is_a_raise",
                violation_error_message="A temporary quota belongs to an ACTIVE subpool, ends, and is above the quota that follows it.",
            ),
        ),
        migrations.AddConstraint(
            model_name="pool",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("drain_by__isnull", True),
                    models.Q(
                        ("parent__isnull", False),
                        ("subpool_state", pools.domain.subpool_lifecycle.SubpoolState["DELETING"]),
                    ),
                    _connector="OR",
                ),
                name="deadline_is_of_a_drain",
                violation_error_message="Only a draining (DELETING) subpool has a deadline.",
            ),
        ),
        migrations.AddConstraint(
            model_name="pool",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("name__regex", "^[a-z]([a-z0-9-]*[a-z0-9])?$"), ("parent__isnull", True)),
                    models.Q(("parent__isnull", False), ("subpool_name__regex", "^[a-z]([a-z0-9-]*[a-z0-9])?$")),
                    _connector="OR",
                ),
                name="pool_name_rule",
                violation_error_message="Names have lower-case letters, digits and hyphens, a letter first.",
            ),
        ),
        migrations.AddConstraint(
            model_name="pool",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("name__contains", "--"), ("parent__isnull", True), _negated=True),
                    models.Q(("parent__isnull", False), ("subpool_name__contains", "--"), _negated=True),
                ),
                name="pool_name_separator",
                violation_error_message="A name cannot contain '--', which separates a pool from its subpool.",
            ),
        ),
        migrations.AddConstraint(
            model_name="pool",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("guarantee__isnull", True), ("guarantee__gte", -1), _connector="OR"),
                    models.Q(("maximum__isnull", True), ("maximum__gte", -1), _connector="OR"),
                    models.Q(("weight__isnull", True), ("weight__gte", 0), _connector="OR"),
                ),
                name="pool_no_negative_quota",
                violation_error_message="A quota is 0 or more GPUs; -1 means unlimited.",
            ),
        ),
        migrations.AddConstraint(
            model_name="pool",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("cohort__isnull", False),
                    models.Q(("borrowing_limit__isnull", True), ("lending_limit__isnull", True)),
                    _connector="OR",
                ),
                name="pool_limits_need_cohort",
                violation_error_message="Only a pool in a cohort has a borrowing or a lending limit.",
            ),
        ),
        migrations.AddConstraint(
            model_name="pool",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("borrowing_limit__isnull", True), ("borrowing_limit__gte", 0), _connector="OR"),
                    models.Q(("lending_limit__isnull", True), ("lending_limit__gte", 0), _connector="OR"),
                ),
                name="pool_no_negative_limit",
                violation_error_message="A limit is 0 or more GPUs.",
            ),
        ),
        migrations.AddConstraint(
            model_name="pool",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("lending_limit__isnull", True),
                    ("guarantee__isnull", True),
                    ("guarantee", -1),
                    ("lending_limit__lte", models.F("guarantee")),
                    _connector="OR",
                ),
                name="pool_lends_what_it_has",
                violation_error_message="A pool cannot lend more than its quota (guarantee).",
            ),
        ),
        migrations.AddConstraint(
            model_name="pool",
            constraint=models.CheckConstraint(
                condition=models.Q(("archived", False), ("cohort__isnull", True), _connector="OR"),
                name="pool_archived_has_no_cohort",
                violation_error_message="An archived pool cannot be in a cohort.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="state_machine",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        IF TG_OP = 'INSERT' THEN\n            IF NEW.subpool_state <> 'ACTIVE' THEN\n                RAISE EXCEPTION 'A new subpool is ACTIVE, not %.', NEW.subpool_state USING ERRCODE = 'check_violation', CONSTRAINT = 'subpool_state_machine', TABLE = TG_TABLE_NAME;\n            END IF;\n            RETURN NEW;\n        END IF;\n        IF NEW.parent_id IS DISTINCT FROM OLD.parent_id OR NEW.subpool_name IS DISTINCT FROM OLD.subpool_name THEN\n            RAISE EXCEPTION 'The parent and the short name of a subpool cannot change.' USING ERRCODE = 'check_violation', CONSTRAINT = 'subpool_identity', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF NEW.subpool_state <> OLD.subpool_state\n            AND OLD.subpool_state || '>' || NEW.subpool_state NOT IN ('ACTIVE>DELETING', 'ACTIVE>ARCHIVED', 'DELETING>ARCHIVED', 'ARCHIVED>ACTIVE')\n        THEN\n            RAISE EXCEPTION 'A subpool cannot go from % to %.', OLD.subpool_state, NEW.subpool_state USING ERRCODE = 'check_violation', CONSTRAINT = 'subpool_state_machine', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF OLD.subpool_state <> 'ACTIVE' AND NEW.subpool_state = OLD.subpool_state\n            AND (NEW.last_quota <> OLD.last_quota OR NEW.flavors <> OLD.flavors)\n        THEN\n            RAISE EXCEPTION 'The quota of a subpool in state % cannot change.', OLD.subpool_state USING ERRCODE = 'check_violation', CONSTRAINT = 'subpool_frozen', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF (NEW.subpool_state = 'ARCHIVED' AND OLD.subpool_state <> NEW.subpool_state\n                OR NEW.archived AND NOT OLD.archived)\n            AND EXISTS (SELECT FROM pools_reservation WHERE pool_id = NEW.id)\n        THEN\n            RAISE EXCEPTION '% still has active workflows and cannot be archived.', NEW.name USING ERRCODE = 'check_violation', CONSTRAINT = 'archived_has_no_live_work', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF NEW.archived AND EXISTS (\n            SELECT FROM pools_pool WHERE parent_id = NEW.id AND subpool_state <> 'ARCHIVED'\n        ) THEN\n            RAISE EXCEPTION '% still has subpools and cannot be archived.', NEW.name USING ERRCODE = 'check_violation', CONSTRAINT = 'archived_has_no_slices', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF to_jsonb(NEW) - ARRAY['version', 'updated_at']\n            IS DISTINCT FROM to_jsonb(OLD) - ARRAY['version', 'updated_at']\n        THEN\n            NEW.version := OLD.version + 1;\n            -- A drain begins with the last change of the row, so its deadline is none.\n            NEW.updated_at := CASE\n                WHEN to_jsonb(NEW) - ARRAY['version', 'updated_at', 'drain_by']\n                    IS DISTINCT FROM to_jsonb(OLD) - ARRAY['version', 'updated_at', 'drain_by']\n                THEN clock_timestamp() ELSE OLD.updated_at END;\n        ELSE\n            NEW.version := OLD.version;\n        END IF;\n        RETURN NEW;\n    ",
                    hash="6c7316fdb298d3af1962c5949f02586da040ba02",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_state_machine_4c2ff",
                    table="pools_pool",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="subpools_within_guarantee",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    constraint="CONSTRAINT",
                    declare="DECLARE root bigint; guaranteed integer; allocated bigint; subpools bigint;",
                    func="\n        root := COALESCE(NEW.parent_id, NEW.id);\n        SELECT guarantee INTO guaranteed FROM pools_pool WHERE id = root FOR NO KEY UPDATE;\n        SELECT COALESCE(sum(last_quota), 0), count(*) INTO allocated, subpools\n            FROM pools_pool WHERE parent_id = root AND subpool_state = 'ACTIVE';\n        IF subpools > 0 AND COALESCE(guaranteed, -1) = -1 THEN\n            RAISE EXCEPTION 'A pool with subpools needs a finite quota (guarantee).' USING ERRCODE = 'check_violation', CONSTRAINT = 'slices_within_guarantee', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF subpools > 0 AND allocated > guaranteed THEN\n            RAISE EXCEPTION 'The subpools of a pool have quotas of % GPUs together, the quota of the pool is %.', allocated, guaranteed USING ERRCODE = 'check_violation', CONSTRAINT = 'slices_within_guarantee', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NULL;\n    ",
                    hash="4036e475237e4aedc5aaced6064b43208024e422",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_subpools_within_guarantee_60787",
                    table="pools_pool",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="check_flavors",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (NEW.flavors <> '[]' OR NEW.flavors_after <> '[]')",
                    func="\n        IF NEW.parent_id IS NULL AND (\n        jsonb_typeof(NEW.flavors) <> 'array' OR EXISTS (\n            SELECT FROM jsonb_array_elements(NEW.flavors) each\n            WHERE jsonb_typeof(each) <> 'object'\n                OR NOT COALESCE(each ->> 'flavor' ~ '^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$', false)\n                OR COALESCE(jsonb_typeof(each -> 'quota'), '') <> 'number'\n                OR EXISTS (\n                    SELECT FROM jsonb_each_text(each - 'flavor') amount\n                    WHERE amount.key NOT IN ('quota', 'maximum', 'borrowing_limit', 'lending_limit') OR NOT COALESCE(amount.value ~ '^[0-9]{1,10}$', false)\n                )\n        ) OR (SELECT count(*) <> count(DISTINCT each ->> 'flavor') FROM jsonb_array_elements(NEW.flavors) each))\n            OR NEW.parent_id IS NOT NULL AND (\n        jsonb_typeof(NEW.flavors) <> 'array' OR EXISTS (\n            SELECT FROM jsonb_array_elements(NEW.flavors) each\n            WHERE jsonb_typeof(each) <> 'object'\n                OR NOT COALESCE(each ->> 'flavor' ~ '^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$', false)\n                OR COALESCE(jsonb_typeof(each -> 'quota'), '') <> 'number'\n                OR EXISTS (\n                    SELECT FROM jsonb_each_text(each - 'flavor') amount\n                    WHERE amount.key NOT IN ('quota') OR NOT COALESCE(amount.value ~ '^[0-9]{1,10}$', false)\n                )\n        ) OR (SELECT count(*) <> count(DISTINCT each ->> 'flavor') FROM jsonb_array_elements(NEW.flavors) each))\n            OR \n        jsonb_typeof(NEW.flavors_after) <> 'array' OR EXISTS (\n            SELECT FROM jsonb_array_elements(NEW.flavors_after) each\n            WHERE jsonb_typeof(each) <> 'object'\n                OR NOT COALESCE(each ->> 'flavor' ~ '^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$', false)\n                OR COALESCE(jsonb_typeof(each -> 'quota'), '') <> 'number'\n                OR EXISTS (\n                    SELECT FROM jsonb_each_text(each - 'flavor') amount\n                    WHERE amount.key NOT IN ('quota') OR NOT COALESCE(amount.value ~ '^[0-9]{1,10}$', false)\n                )\n        ) OR (SELECT count(*) <> count(DISTINCT each ->> 'flavor') FROM jsonb_array_elements(NEW.flavors_after) each)\n        THEN\n            RAISE EXCEPTION 'The quotas of % by flavor are a list: the name of each flavor once, and whole numbers of 0 or more.', NEW.name USING ERRCODE = 'check_violation', CONSTRAINT = 'pool_flavors', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF EXISTS (\n            SELECT FROM jsonb_array_elements(NEW.flavors) each\n            WHERE (each ->> 'maximum')::bigint < (each ->> 'quota')::bigint\n                OR (each ->> 'lending_limit')::bigint > (each ->> 'quota')::bigint\n        ) THEN\n            RAISE EXCEPTION 'A flavor of % has a maximum below its quota, or lends more than its quota.', NEW.name USING ERRCODE = 'check_violation', CONSTRAINT = 'pool_flavors', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF NEW.cohort_id IS NULL AND EXISTS (\n            SELECT FROM jsonb_array_elements(NEW.flavors) each\n            WHERE each ? 'borrowing_limit' OR each ? 'lending_limit'\n        ) THEN\n            RAISE EXCEPTION 'Only a pool in a cohort has a borrowing or a lending limit: % is in none.', NEW.name USING ERRCODE = 'check_violation', CONSTRAINT = 'pool_flavors', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF NEW.flavors <> '[]' AND (NEW.borrowing_limit IS NOT NULL OR NEW.lending_limit IS NOT NULL) THEN\n            RAISE EXCEPTION 'The limits of % in its cohort are those of its flavors.', NEW.name USING ERRCODE = 'check_violation', CONSTRAINT = 'pool_flavors', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NEW;\n    ",
                    hash="21885f952e079cfda8c49ba0b7b4bff82474a414",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_check_flavors_6ee3a",
                    table="pools_pool",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="flavors_within_quota",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    constraint="CONSTRAINT",
                    declare="DECLARE root pools_pool; changed pools_pool; wrong record;",
                    func="\n        SELECT * INTO changed FROM pools_pool WHERE id = NEW.id;\n        IF NOT FOUND THEN RETURN NULL; END IF;\n        SELECT * INTO root FROM pools_pool WHERE id = COALESCE(changed.parent_id, changed.id) FOR NO KEY UPDATE;\n        IF root.flavors = '[]' AND NOT EXISTS (\n            SELECT FROM pools_pool WHERE parent_id = root.id AND subpool_state <> 'ARCHIVED'\n                AND (flavors <> '[]' OR flavors_after <> '[]')\n        ) THEN\n            RETURN NULL;\n        END IF;\n        SELECT pool.name, sums.parts, sums.whole INTO wrong\n            FROM pools_pool pool, LATERAL (\n                VALUES (\n                    (SELECT sum((each ->> 'quota')::bigint) FROM jsonb_array_elements(pool.flavors) each),\n                    CASE WHEN pool.parent_id IS NULL THEN pool.guarantee ELSE pool.last_quota END\n                ), (\n                    (SELECT sum((each ->> 'quota')::bigint) FROM jsonb_array_elements(pool.flavors_after) each),\n                    pool.quota_after\n                )\n            ) sums (parts, whole)\n            WHERE (pool.id = root.id OR pool.parent_id = root.id\n                    AND pool.subpool_state <> 'ARCHIVED')\n                AND sums.parts IS DISTINCT FROM sums.whole\n                AND NOT (sums.parts IS NULL AND (sums.whole IS NULL OR pool.flavors = '[]'\n                    AND (pool.parent_id IS NULL OR root.flavors = '[]' OR pool.last_quota = 0)))\n            LIMIT 1;\n        IF wrong.name IS NOT NULL THEN\n            RAISE EXCEPTION 'The flavors of % have % GPUs together, its quota is %. Set its quotas by flavor first, each of them.', wrong.name, COALESCE(wrong.parts, 0), COALESCE(wrong.whole::text, 'not finite') USING ERRCODE = 'check_violation', CONSTRAINT = 'flavors_sum_to_quota', TABLE = TG_TABLE_NAME;\n        END IF;\n        SELECT part.name, after.flavor, after.gpus, COALESCE(now.gpus, 0) AS now INTO wrong\n            FROM pools_pool part\n            CROSS JOIN LATERAL (\n                SELECT each ->> 'flavor' AS flavor, (each ->> 'quota')::bigint AS gpus\n                    FROM jsonb_array_elements(part.flavors_after) each\n            ) after\n            LEFT JOIN LATERAL (\n                SELECT (each ->> 'quota')::bigint AS gpus FROM jsonb_array_elements(part.flavors) each\n                    WHERE each ->> 'flavor' = after.flavor\n            ) now ON true\n            WHERE part.parent_id = root.id AND after.gpus > COALESCE(now.gpus, 0) LIMIT 1;\n        IF wrong.name IS NOT NULL THEN\n            RAISE EXCEPTION '% has % % GPUs after its temporary quota, more than the % that it has now.', wrong.name, wrong.gpus, wrong.flavor, wrong.now USING ERRCODE = 'check_violation', CONSTRAINT = 'flavors_within_quota', TABLE = TG_TABLE_NAME;\n        END IF;\n        WITH owned AS (\n            SELECT each ->> 'flavor' AS flavor, (each ->> 'quota')::bigint AS gpus\n                FROM jsonb_array_elements(root.flavors) each WHERE root.flavors <> '[]'\n            UNION ALL SELECT 'default', root.guarantee WHERE root.flavors = '[]'\n        ), given AS (\n            SELECT part.name, part.subpool_state, each ->> 'flavor' AS flavor, (each ->> 'quota')::bigint AS gpus\n                FROM pools_pool part CROSS JOIN LATERAL jsonb_array_elements(part.flavors) each\n                WHERE part.parent_id = root.id AND part.subpool_state <> 'ARCHIVED'\n            UNION ALL SELECT part.name, part.subpool_state, 'default', part.last_quota FROM pools_pool part\n                WHERE part.parent_id = root.id AND part.subpool_state <> 'ARCHIVED'\n                    AND part.flavors = '[]' AND part.last_quota > 0\n        )\n        SELECT given.flavor, owned.gpus AS quota, min(given.name) AS name,\n                COALESCE(sum(given.gpus) FILTER (WHERE given.subpool_state = 'ACTIVE'), 0) AS given INTO wrong\n            FROM given LEFT JOIN owned USING (flavor)\n            GROUP BY given.flavor, owned.gpus\n            HAVING owned.gpus IS NULL\n                OR sum(given.gpus) FILTER (WHERE given.subpool_state = 'ACTIVE') > owned.gpus\n            LIMIT 1;\n        IF wrong.flavor IS NOT NULL AND wrong.quota IS NULL THEN\n            RAISE EXCEPTION '% has a quota of % GPUs, a flavor that pool % does not have.', wrong.name, wrong.flavor, root.name USING ERRCODE = 'check_violation', CONSTRAINT = 'flavors_within_quota', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF wrong.flavor IS NOT NULL THEN\n            RAISE EXCEPTION 'The subpools of % have % % GPUs together, the quota of the pool is %.', root.name, wrong.given, wrong.flavor, wrong.quota USING ERRCODE = 'check_violation', CONSTRAINT = 'flavors_within_quota', TABLE = TG_TABLE_NAME;\n        END IF;\n        SELECT each ->> 'flavor' AS flavor, backend.name AS backend INTO wrong\n            FROM jsonb_array_elements(root.flavors) each, pools_backend backend\n            WHERE backend.id = root.backend_id AND NOT root.archived AND each ->> 'flavor' <> 'default'\n                AND NOT backend.flavors @> jsonb_build_array(jsonb_build_object('name', each ->> 'flavor'))\n            LIMIT 1;\n        IF wrong.flavor IS NOT NULL THEN\n            RAISE EXCEPTION 'Pool % has a quota of % GPUs, a flavor that cluster % does not name.', root.name, wrong.flavor, wrong.backend USING ERRCODE = 'check_violation', CONSTRAINT = 'pool_flavor_known', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NULL;\n    ",
                    hash="e17c4d87019123b26888dc0a03d5baff3ecefdc6",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_flavors_within_quota_ceeb6",
                    table="pools_pool",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="check_names",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    constraint="CONSTRAINT",
                    declare="DECLARE wrong text;",
                    func="\n        SELECT child.name INTO wrong\n            FROM pools_pool child JOIN pools_pool parent ON parent.id = child.parent_id\n            WHERE (child.id = NEW.id OR child.parent_id = NEW.id)\n                AND child.name <> parent.name || '--' || child.subpool_name LIMIT 1;\n        IF wrong IS NOT NULL THEN\n            RAISE EXCEPTION 'The name % does not begin with the name of its parent.', wrong USING ERRCODE = 'check_violation', CONSTRAINT = 'subpool_name_follows_parent', TABLE = TG_TABLE_NAME;\n        END IF;\n        SELECT pool.name INTO wrong\n            FROM pools_pool pool\n            JOIN pools_pool root ON root.id = COALESCE(pool.parent_id, pool.id)\n            JOIN pools_backend backend ON backend.id = root.backend_id\n            WHERE (pool.id = NEW.id OR pool.parent_id = NEW.id)\n                AND length('osmo-pool-' || backend.namespace || '-' || pool.name\n                    || CASE WHEN pool.parent_id IS NULL THEN '--_shared' ELSE '' END)\n                    > 63\n            LIMIT 1;\n        IF wrong IS NOT NULL THEN\n            RAISE EXCEPTION 'The queue name of % would be longer than 63 characters.', wrong USING ERRCODE = 'check_violation', CONSTRAINT = 'queue_name_length', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NULL;\n    ",
                    hash="a9389bc0969f2432bcad55b2c9edeb37386c98f8",
                    operation='INSERT OR UPDATE OF "name", "backend_id"',
                    pgid="pgtrigger_check_names_80fee",
                    table="pools_pool",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="move_tokens",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN RETURN NULL; END IF;\n        FOR concerned IN\n            SELECT id, 'backend/' || id AS subject FROM pools_backend WHERE id IN (\n        SELECT NEW.backend_id UNION SELECT OLD.backend_id\n        UNION SELECT backend_id FROM pools_pool WHERE id IN (NEW.parent_id, OLD.parent_id)\n        UNION (\n        WITH RECURSIVE above (id, parent_id) AS (\n            SELECT id, parent_id FROM pools_cohort WHERE id IN (NEW.cohort_id, OLD.cohort_id)\n            UNION SELECT parent.id, parent.parent_id FROM above JOIN pools_cohort parent ON parent.id = above.parent_id\n        ), tree (id) AS (\n            SELECT id FROM above\n            UNION SELECT child.id FROM tree JOIN pools_cohort child ON child.parent_id = tree.id\n        )\n        SELECT backend_id FROM pools_pool WHERE cohort_id IN (SELECT id FROM tree)\n    )\n        ) ORDER BY id\n        LOOP\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = concerned.subject AND kind = 'plan'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES (concerned.subject, 'plan', 1, gen_random_uuid());\n        END IF;\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = concerned.subject AND kind = 'quotas'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES (concerned.subject, 'quotas', 1, gen_random_uuid());\n        END IF;\n        noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');\n        IF position(',changed:' || concerned.id || ',' IN noted) = 0 THEN\n            PERFORM set_config('osmo.changes', noted || 'changed:' || concerned.id || ',', true);\n        END IF;\n        END LOOP;\n        IF COALESCE(NEW.cohort_id, OLD.cohort_id) IS NOT NULL\n            AND (NEW.name, NEW.cohort_id, NEW.guarantee, NEW.maximum, NEW.borrowing_limit, NEW.lending_limit, NEW.flavors)\n                IS DISTINCT FROM (OLD.name, OLD.cohort_id, OLD.guarantee, OLD.maximum, OLD.borrowing_limit, OLD.lending_limit, OLD.flavors)\n        THEN\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = 'cohorts' AND kind = 'quotas'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES ('cohorts', 'quotas', 1, gen_random_uuid());\n        END IF;\n        END IF; RETURN NULL;",
                    hash="fc8e1193adb4f52afbfb4d365b938a61433794c1",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_move_tokens_f92ce",
                    table="pools_pool",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="protect_history",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        IF OLD.parent_id IS NOT NULL THEN\n            RAISE EXCEPTION 'Subpool % can be archived, not deleted.', OLD.name USING ERRCODE = 'check_violation', CONSTRAINT = 'subpool_never_deleted', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF OLD.archived THEN\n            RAISE EXCEPTION 'Pool % is archived and keeps its history.', OLD.name USING ERRCODE = 'check_violation', CONSTRAINT = 'archived_never_deleted', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN OLD;\n    ",
                    hash="db9714bccba830e723533fd4cb89dfc4dfcd1521",
                    operation="DELETE",
                    pgid="pgtrigger_protect_history_efc3f",
                    table="pools_pool",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="create_counters",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        INSERT INTO pools_leafusage (pool_id, used, total_usage, live_workflows, committed)\n            VALUES (NEW.id, 0, 0, 0, 0);\n        RETURN NULL;\n    ",
                    hash="3d0557e8927789cb5a982cec0160138415f4efd1",
                    operation="INSERT",
                    pgid="pgtrigger_create_counters_7a069",
                    table="pools_pool",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="delete_counters",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        DELETE FROM pools_leafusage WHERE pool_id = OLD.id;\n        DELETE FROM pools_flavorusage WHERE pool_id = OLD.id;\n        RETURN NULL;\n    ",
                    hash="4422c0f7154fe90d348e5289943907bdb0774a4b",
                    operation="DELETE",
                    pgid="pgtrigger_delete_counters_0e7d5",
                    table="pools_pool",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['version', 'updated_at']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['version', 'updated_at']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := \n    CASE\n        WHEN COALESCE(NEW.parent_id, OLD.parent_id) IS NULL THEN CASE\n            WHEN TG_OP = 'INSERT' THEN 'pool.created'\n            WHEN TG_OP = 'DELETE' THEN 'pool.deleted'\n            WHEN NEW.archived AND NOT OLD.archived THEN 'pool.archived'\n            WHEN OLD.archived AND NOT NEW.archived THEN 'pool.reactivated'\n            WHEN NEW.name <> OLD.name THEN 'pool.renamed'\n            ELSE 'pool.updated' END\n        WHEN TG_OP = 'INSERT' THEN 'subpool.created'\n        WHEN TG_OP = 'DELETE' THEN 'subpool.deleted'\n        WHEN NEW.subpool_state = OLD.subpool_state THEN\n            CASE WHEN NEW.name <> OLD.name THEN 'subpool.renamed' ELSE 'subpool.updated' END\n        WHEN NEW.subpool_state = 'DELETING' THEN 'subpool.deleting'\n        WHEN NEW.subpool_state = 'ARCHIVED' THEN 'subpool.archived'\n        ELSE 'subpool.reactivated'\n    END\n;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'pool/' || COALESCE(NEW.name, OLD.name), before_row || jsonb_build_object('cohort', (SELECT name FROM pools_cohort WHERE id = OLD.cohort_id)), after_row || jsonb_build_object('cohort', (SELECT name FROM pools_cohort WHERE id = NEW.cohort_id)),\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    COALESCE(NEW.parent_id, NEW.id, OLD.id), NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="94d4cac40d83853ab50dc2ae365750b9b099994e",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_a0ed1",
                    table="pools_pool",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="owned_by_git",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE subject text; owner pools_configurationowner%ROWTYPE;",
                    func="\n                IF COALESCE(OLD.parent_id, NEW.parent_id) IS NOT NULL OR TG_OP = 'UPDATE' AND to_jsonb(NEW) - ARRAY['version', 'updated_at'] = to_jsonb(OLD) - ARRAY['version', 'updated_at'] THEN RETURN NULL; END IF;\n                subject := COALESCE(OLD.name, NEW.name);\n                SELECT * INTO owner FROM pools_configurationowner\n                    WHERE kind = 'pool' AND name = subject ;\n                IF NOT FOUND OR owner.source = COALESCE(current_setting('osmo.source', true), '') THEN\n                    RETURN NULL;\n                END IF;\n                RAISE EXCEPTION '%/% is owned by Git (%), so it is read-only here. Change it in that file, or release '\n                    'it on the server with: osmo-admin release %/%', owner.kind, owner.name,\n                    concat_ws(', ', owner.source, NULLIF(owner.path, ''),\n                        'commit ' || NULLIF(left(owner.commit, 12), '')),\n                    owner.kind, owner.name\n                    USING ERRCODE = 'check_violation', CONSTRAINT = 'owned_by_git', TABLE = TG_TABLE_NAME,\n                    DETAIL = jsonb_build_object('owner', 'git', 'source', owner.source, 'path', owner.path,\n                        'commit', owner.commit)::text;\n            ",
                    hash="3b2c74ccaf7518a025ddb1754d268342723c2e96",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_owned_by_git_a83e7",
                    table="pools_pool",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="subpools_owned_by_git",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE subject text; owner pools_configurationowner%ROWTYPE;",
                    func="\n                IF COALESCE(OLD.parent_id, NEW.parent_id) IS NULL OR TG_OP = 'UPDATE' AND (\n                    (NEW.subpool_state, NEW.last_quota, NEW.flavors, NEW.quota_until) IS NOT DISTINCT FROM\n                        (OLD.subpool_state, OLD.last_quota, OLD.flavors, OLD.quota_until)\n                    OR OLD.subpool_state = 'DELETING'\n                    OR OLD.quota_until <= clock_timestamp() AND NEW.quota_until IS NULL\n                        AND NEW.last_quota = OLD.quota_after AND NEW.flavors = OLD.flavors_after\n                        AND NEW.subpool_state = OLD.subpool_state\n                ) THEN RETURN NULL; END IF;\n                subject := (SELECT name FROM pools_pool WHERE id = COALESCE(OLD.parent_id, NEW.parent_id));\n                SELECT * INTO owner FROM pools_configurationowner\n                    WHERE kind = 'pool' AND name = subject AND subpools;\n                IF NOT FOUND OR owner.source = COALESCE(current_setting('osmo.source', true), '') THEN\n                    RETURN NULL;\n                END IF;\n                RAISE EXCEPTION '%/% is owned by Git (%), so it is read-only here. Change it in that file, or release '\n                    'it on the server with: osmo-admin release %/%', owner.kind, owner.name,\n                    concat_ws(', ', owner.source, NULLIF(owner.path, ''),\n                        'commit ' || NULLIF(left(owner.commit, 12), '')),\n                    owner.kind, owner.name\n                    USING ERRCODE = 'check_violation', CONSTRAINT = 'owned_by_git', TABLE = TG_TABLE_NAME,\n                    DETAIL = jsonb_build_object('owner', 'git', 'source', owner.source, 'path', owner.path,\n                        'commit', owner.commit)::text;\n            ",
                    hash="f296e5020e2ef53945480eed3c3581adf731ea82",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_subpools_owned_by_git_ce7db",
                    table="pools_pool",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of pools cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="54db86d09aeedb2b1e14fe6f7f3b495e709b75bf",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_cbeb2",
                    table="pools_pool",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="inboxnotice",
            index=models.Index(fields=["owner", "-id"], name="inbox_by_owner"),
        ),
        migrations.AddIndex(
            model_name="inboxnotice",
            index=models.Index(fields=["pool", "-id"], name="inbox_by_pool"),
        ),
        migrations.AddIndex(
            model_name="inboxnotice",
            index=models.Index(fields=["created_at"], name="inbox_by_age"),
        ),
        migrations.AddConstraint(
            model_name="inboxnotice",
            constraint=models.UniqueConstraint(
                fields=("entry", "owner"),
                name="inbox_news_once",
                nulls_distinct=False,
                violation_error_message="This news is in the inbox already.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="inboxnotice",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of the inbox cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="5f5aa38fa3f059d3dda8949277722c4094ef27ca",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_36b37",
                    table="pools_inboxnotice",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="flavorusage",
            constraint=models.UniqueConstraint(fields=("pool", "flavor"), name="flavor_usage_once"),
        ),
        migrations.AddConstraint(
            model_name="flavorusage",
            constraint=models.CheckConstraint(
                condition=models.Q(("committed__gte", 0), ("total_usage__gte", models.F("used")), ("used__gte", 0)),
                name="flavor_usage_never_negative",
                violation_error_message="Usage cannot be negative.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="flavorusage",
            trigger=pgtrigger.compiler.Trigger(
                name="protect_derived",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="IF pg_trigger_depth() < 2 THEN RAISE EXCEPTION 'Usage by flavor follows the reservations; it cannot be edited.' USING ERRCODE = 'check_violation', CONSTRAINT = 'flavor_usage_follows_reservations', TABLE = TG_TABLE_NAME; END IF; RETURN NULL;",
                    hash="909c1571fe5a3a16fa669605a7229915da94ff3b",
                    level="STATEMENT",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_protect_derived_d3d86",
                    table="pools_flavorusage",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="flavorusage",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of usage by flavor cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="d0dcdc51f50cf213e8e5a93e3a48dfe44e6711e8",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_7f0f7",
                    table="pools_flavorusage",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="livework",
            constraint=models.UniqueConstraint(fields=("owner", "pool"), name="live_work_once"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="livework",
            trigger=pgtrigger.compiler.Trigger(
                name="protect_derived",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="IF pg_trigger_depth() < 2 THEN RAISE EXCEPTION 'Counters of live work follow the reservations; they cannot be edited.' USING ERRCODE = 'check_violation', CONSTRAINT = 'live_work_follows_reservations', TABLE = TG_TABLE_NAME; END IF; RETURN NULL;",
                    hash="1f4ce5423d876523ec6c5f272bf3c59b3bc4c1ff",
                    level="STATEMENT",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_protect_derived_43d4b",
                    table="pools_livework",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="livework",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of live work cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="2ff9d54821ba510fbecad72eda24279d75e69521",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_404df",
                    table="pools_livework",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="node",
            constraint=models.UniqueConstraint(fields=("backend", "name"), name="node_unique_in_backend"),
        ),
        migrations.AddConstraint(
            model_name="node",
            constraint=models.CheckConstraint(
                condition=models.Q(("physical_gpus", None), ("advertised_gpus__isnull", False), _connector="OR"),
                name="node_shares_what_it_advertises",
                violation_error_message="Only a node that shares its GPUs says how many it has besides.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="node",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD); END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW); END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'node.created' WHEN 'UPDATE' THEN 'node.updated' ELSE 'node.deleted' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'node/' || COALESCE(NEW.name, OLD.name), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="7aedb7ad26dc325f18a0e6ca556f038932434e1c",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_9ca7e",
                    table="pools_node",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="node",
            trigger=pgtrigger.compiler.Trigger(
                name="owned_by_git",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE subject text; owner pools_configurationowner%ROWTYPE;",
                    func="\n                IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - 'taint' = to_jsonb(OLD) - 'taint' THEN RETURN NULL; END IF;\n                subject := (SELECT name FROM pools_backend WHERE id = COALESCE(OLD.backend_id, NEW.backend_id) AND kind = 'simulated');\n                SELECT * INTO owner FROM pools_configurationowner\n                    WHERE kind = 'backend' AND name = subject ;\n                IF NOT FOUND OR owner.source = COALESCE(current_setting('osmo.source', true), '') THEN\n                    RETURN NULL;\n                END IF;\n                RAISE EXCEPTION '%/% is owned by Git (%), so it is read-only here. Change it in that file, or release '\n                    'it on the server with: osmo-admin release %/%', owner.kind, owner.name,\n                    concat_ws(', ', owner.source, NULLIF(owner.path, ''),\n                        'commit ' || NULLIF(left(owner.commit, 12), '')),\n                    owner.kind, owner.name\n                    USING ERRCODE = 'check_violation', CONSTRAINT = 'owned_by_git', TABLE = TG_TABLE_NAME,\n                    DETAIL = jsonb_build_object('owner', 'git', 'source', owner.source, 'path', owner.path,\n                        'commit', owner.commit)::text;\n            ",
                    hash="674c8f4a07f2377bb40586787b795a4e66ac6f10",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_owned_by_git_ec639",
                    table="pools_node",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="node",
            trigger=pgtrigger.compiler.Trigger(
                name="node_flavors_known",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (NEW.flavor <> 'default')",
                    constraint="CONSTRAINT",
                    declare="DECLARE wrong record;",
                    func="\n    SELECT node.name, node.flavor, backend.name AS backend INTO wrong\n        FROM pools_node node JOIN pools_backend backend ON backend.id = node.backend_id\n        WHERE node.id = NEW.id AND node.flavor <> 'default'\n            AND NOT backend.flavors @> jsonb_build_array(jsonb_build_object('name', node.flavor))\n        LIMIT 1;\n    IF wrong.name IS NOT NULL THEN\n        RAISE EXCEPTION 'The node % has the flavor %, which cluster % does not name.', wrong.name, wrong.flavor, wrong.backend USING ERRCODE = 'check_violation', CONSTRAINT = 'node_flavor_known', TABLE = TG_TABLE_NAME;\n    END IF;\n    RETURN NULL;\n",
                    hash="8b21d905ada72b5a38bcb34014b242cd579a0202",
                    operation='INSERT OR UPDATE OF "flavor", "backend_id"',
                    pgid="pgtrigger_node_flavors_known_a4eb9",
                    table="pools_node",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="node",
            trigger=pgtrigger.compiler.Trigger(
                name="move_tokens",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN RETURN NULL; END IF;\n        FOR concerned IN\n            SELECT id, 'backend/' || id AS subject FROM pools_backend WHERE id IN (NEW.backend_id, OLD.backend_id) ORDER BY id\n        LOOP\n        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (\n            SELECT id FROM pools_changetoken WHERE subject = concerned.subject AND kind = 'plan'\n            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n        );\n        IF NOT FOUND THEN\n            INSERT INTO pools_changetoken (subject, kind, number, stamp)\n                VALUES (concerned.subject, 'plan', 1, gen_random_uuid());\n        END IF;\n        noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');\n        IF position(',changed:' || concerned.id || ',' IN noted) = 0 THEN\n            PERFORM set_config('osmo.changes', noted || 'changed:' || concerned.id || ',', true);\n        END IF;\n        END LOOP; RETURN NULL;",
                    hash="815e2a09784f08ca73bf69c533887c4640058383",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_move_tokens_38524",
                    table="pools_node",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="node",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of nodes cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="6cb7e619ee432b3204a21cc01b985a02e152af76",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_38990",
                    table="pools_node",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="noticecondition",
            constraint=models.UniqueConstraint(fields=("kind", "subject"), name="notice_condition_once"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="noticecondition",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD); END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW); END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'condition.began' WHEN 'DELETE' THEN 'condition.ended' ELSE 'condition.updated' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'condition/' || COALESCE(NEW.kind, OLD.kind) || '/' || COALESCE(NEW.subject, OLD.subject), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    COALESCE(NEW.pool_id, OLD.pool_id), (SELECT username FROM pools_user WHERE id = COALESCE(NEW.owner_id, OLD.owner_id)), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="4fe6c1744d8c245cf27fc7d3320d7e4813368e40",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_0dc39",
                    table="pools_noticecondition",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="noticecondition",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of conditions cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="e28bf9d27d68c5016f53dba4d82979a706e03c44",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_6dc87",
                    table="pools_noticecondition",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="noticetarget",
            constraint=models.CheckConstraint(
                condition=models.Q(("user__isnull", True), ("pool__isnull", True), _connector="OR"),
                name="notice_target_has_one_owner",
                violation_error_message="A target of notices belongs to a person, a pool or the installation.",
            ),
        ),
        migrations.AddConstraint(
            model_name="noticetarget",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("quiet_hours", ""),
                    (
                        "quiet_hours__regex",
                        "^([01]\\d|2[0-3]):[0-5]\\d-([01]\\d|2[0-3]):[0-5]\\d( [A-Za-z][A-Za-z0-9_+/-]{0,63})?$",
                    ),
                    _connector="OR",
                ),
                name="notice_target_quiet_hours",
                violation_error_message="Quiet hours are two different times and a time zone: 22:00-07:00 Europe/Berlin. Without a zone they are in UTC.",
            ),
        ),
        migrations.AddConstraint(
            model_name="noticetarget",
            constraint=models.UniqueConstraint(
                fields=("user", "pool", "name"), name="notice_target_name_once", nulls_distinct=False
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="noticetarget",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['failures', 'retry_at']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['failures', 'retry_at']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'notice_target.created' WHEN 'UPDATE' THEN 'notice_target.updated' ELSE 'notice_target.deleted' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'notice_target/' || COALESCE((SELECT username FROM pools_user WHERE id = COALESCE(NEW.user_id, OLD.user_id)) || '/', (SELECT name FROM pools_pool WHERE id = COALESCE(NEW.pool_id, OLD.pool_id)) || '/', '') || COALESCE(NEW.name, OLD.name), before_row - ARRAY['sealed_address', 'sealed_secret']::text[], after_row - ARRAY['sealed_address', 'sealed_secret']::text[],\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    COALESCE(NEW.pool_id, OLD.pool_id), (SELECT username FROM pools_user WHERE id = COALESCE(NEW.user_id, OLD.user_id)), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="d4582d09931fea7e22c6db1c186b17efc7110910",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_93110",
                    table="pools_noticetarget",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="noticetarget",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of targets of notices cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="7aabfaef0155cf3749d2e5d0aa7421b2e2b48a0f",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_fa6f5",
                    table="pools_noticetarget",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(
                condition=models.Q(("status", "waiting")), fields=["target", "id"], name="notice_waiting"
            ),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(fields=["target", "-id"], name="notice_by_target"),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(fields=["status", "created_at"], name="notice_by_status"),
        ),
        migrations.AddConstraint(
            model_name="notice",
            constraint=models.UniqueConstraint(fields=("target", "entry"), name="notice_once_per_target"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="notice",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (OLD.status <> 'waiting' AND NEW.status = 'waiting')",
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD); END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW); END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := 'notice.replayed';\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'notice/' || NEW.message_id, before_row - ARRAY['text', 'data']::text[], after_row - ARRAY['text', 'data']::text[],\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    (SELECT pool_id FROM pools_noticetarget WHERE id = NEW.target_id), (SELECT username FROM pools_noticetarget target JOIN pools_user account ON account.id = target.user_id WHERE target.id = NEW.target_id), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="3711f24e84b035479e82f0992ee494ab600d873b",
                    operation="UPDATE",
                    pgid="pgtrigger_audit_1aacf",
                    table="pools_notice",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="notice",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of notices cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="3b72a2c18fb7898927d4c382f5353a6f309949c6",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_66dd6",
                    table="pools_notice",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="reservation",
            trigger=pgtrigger.compiler.Trigger(
                name="leaf_takes_work",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE leaf pools_pool;",
                    func="\n                    SELECT * INTO leaf FROM pools_pool WHERE id = NEW.pool_id FOR SHARE;\n                    IF leaf.archived OR COALESCE(leaf.subpool_state, 'ACTIVE') <> 'ACTIVE' THEN\n                        RAISE EXCEPTION '% accepts no new work.', leaf.name USING ERRCODE = 'check_violation', CONSTRAINT = 'leaf_takes_work', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    RETURN NEW;\n                ",
                    hash="b5f1b12aac0d25fbf5705762d514498fdb5de938",
                    operation="INSERT",
                    pgid="pgtrigger_leaf_takes_work_65b8f",
                    table="pools_reservation",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="reservation",
            trigger=pgtrigger.compiler.Trigger(
                name="count_insert",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n            WITH moved AS MATERIALIZED (\n                SELECT pool_id, owner, sum(used) AS used, sum(total_usage) AS total_usage,\n                    sum(live_workflows) AS live_workflows, sum(committed) AS committed\n                FROM (\n        SELECT pool_id, owner,\n            CASE WHEN priority = 'LOW' THEN 0 ELSE held_gpus END AS used,\n            held_gpus AS total_usage,\n            1 AS live_workflows,\n            CASE WHEN priority = 'LOW' THEN 0\n                ELSE GREATEST(held_gpus, needed_gpus) END AS committed\n        FROM new_rows\n    ) rows GROUP BY pool_id, owner\n            ), work AS (\n                INSERT INTO pools_livework AS kept (pool_id, owner, workflows)\n                    SELECT pool_id, owner, live_workflows FROM moved WHERE live_workflows <> 0 ORDER BY pool_id, owner\n                    ON CONFLICT (owner, pool_id) DO UPDATE SET workflows = kept.workflows + excluded.workflows\n            )\n            UPDATE pools_leafusage leaf SET\n                used = leaf.used + moved.used,\n                total_usage = leaf.total_usage + moved.total_usage,\n                live_workflows = leaf.live_workflows + moved.live_workflows,\n                committed = leaf.committed + moved.committed\n            FROM (\n                SELECT pool_id, sum(used) AS used, sum(total_usage) AS total_usage,\n                    sum(live_workflows) AS live_workflows, sum(committed) AS committed\n                FROM moved GROUP BY pool_id\n            ) moved\n            WHERE leaf.pool_id = moved.pool_id;\n            MERGE INTO pools_flavorusage kept USING (\n                SELECT pool_id, flavor, sum(used) AS used, sum(total_usage) AS total_usage, sum(committed) AS committed\n                FROM (\n        SELECT pool_id, count.key AS flavor,\n            CASE WHEN priority = 'LOW' THEN 0 ELSE (count.value->>0)::bigint END AS used,\n            (count.value->>0)::bigint AS total_usage,\n            CASE WHEN priority = 'LOW' THEN 0 ELSE GREATEST((count.value->>0)::bigint, (count.value->>1)::bigint) END AS committed\n        FROM new_rows, jsonb_each(by_flavor) AS count\n    ) rows GROUP BY pool_id, flavor\n            ) moved ON moved.pool_id = kept.pool_id AND moved.flavor = kept.flavor\n            WHEN MATCHED THEN UPDATE SET\n                used = kept.used + moved.used,\n                total_usage = kept.total_usage + moved.total_usage,\n                committed = kept.committed + moved.committed\n            WHEN NOT MATCHED THEN INSERT (pool_id, flavor, used, total_usage, committed)\n                VALUES (moved.pool_id, moved.flavor, moved.used, moved.total_usage, moved.committed);\n            RETURN NULL;\n        ",
                    hash="469445bed3bd2f0ee7727b792a9c977155adcd62",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_count_insert_c87d9",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="pools_reservation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="reservation",
            trigger=pgtrigger.compiler.Trigger(
                name="count_update",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n            WITH moved AS MATERIALIZED (\n                SELECT pool_id, owner, sum(used) AS used, sum(total_usage) AS total_usage,\n                    sum(live_workflows) AS live_workflows, sum(committed) AS committed\n                FROM (\n        SELECT pool_id, owner,\n            -CASE WHEN priority = 'LOW' THEN 0 ELSE held_gpus END AS used,\n            -held_gpus AS total_usage,\n            -1 AS live_workflows,\n            -CASE WHEN priority = 'LOW' THEN 0\n                ELSE GREATEST(held_gpus, needed_gpus) END AS committed\n        FROM old_rows\n     UNION ALL \n        SELECT pool_id, owner,\n            CASE WHEN priority = 'LOW' THEN 0 ELSE held_gpus END AS used,\n            held_gpus AS total_usage,\n            1 AS live_workflows,\n            CASE WHEN priority = 'LOW' THEN 0\n                ELSE GREATEST(held_gpus, needed_gpus) END AS committed\n        FROM new_rows\n    ) rows GROUP BY pool_id, owner\n            ), work AS (\n                INSERT INTO pools_livework AS kept (pool_id, owner, workflows)\n                    SELECT pool_id, owner, live_workflows FROM moved WHERE live_workflows <> 0 ORDER BY pool_id, owner\n                    ON CONFLICT (owner, pool_id) DO UPDATE SET workflows = kept.workflows + excluded.workflows\n            )\n            UPDATE pools_leafusage leaf SET\n                used = leaf.used + moved.used,\n                total_usage = leaf.total_usage + moved.total_usage,\n                live_workflows = leaf.live_workflows + moved.live_workflows,\n                committed = leaf.committed + moved.committed\n            FROM (\n                SELECT pool_id, sum(used) AS used, sum(total_usage) AS total_usage,\n                    sum(live_workflows) AS live_workflows, sum(committed) AS committed\n                FROM moved GROUP BY pool_id\n            ) moved\n            WHERE leaf.pool_id = moved.pool_id;\n            MERGE INTO pools_flavorusage kept USING (\n                SELECT pool_id, flavor, sum(used) AS used, sum(total_usage) AS total_usage, sum(committed) AS committed\n                FROM (\n        SELECT pool_id, count.key AS flavor,\n            -CASE WHEN priority = 'LOW' THEN 0 ELSE (count.value->>0)::bigint END AS used,\n            -(count.value->>0)::bigint AS total_usage,\n            -CASE WHEN priority = 'LOW' THEN 0 ELSE GREATEST((count.value->>0)::bigint, (count.value->>1)::bigint) END AS committed\n        FROM old_rows, jsonb_each(by_flavor) AS count\n     UNION ALL \n        SELECT pool_id, count.key AS flavor,\n            CASE WHEN priority = 'LOW' THEN 0 ELSE (count.value->>0)::bigint END AS used,\n            (count.value->>0)::bigint AS total_usage,\n            CASE WHEN priority = 'LOW' THEN 0 ELSE GREATEST((count.value->>0)::bigint, (count.value->>1)::bigint) END AS committed\n        FROM new_rows, jsonb_each(by_flavor) AS count\n    ) rows GROUP BY pool_id, flavor\n            ) moved ON moved.pool_id = kept.pool_id AND moved.flavor = kept.flavor\n            WHEN MATCHED THEN UPDATE SET\n                used = kept.used + moved.used,\n                total_usage = kept.total_usage + moved.total_usage,\n                committed = kept.committed + moved.committed\n            WHEN NOT MATCHED THEN INSERT (pool_id, flavor, used, total_usage, committed)\n                VALUES (moved.pool_id, moved.flavor, moved.used, moved.total_usage, moved.committed);\n            RETURN NULL;\n        ",
                    hash="0a49f3f3485bb5f1eb9f61ecad69469ca690f60e",
                    level="STATEMENT",
                    operation="UPDATE",
                    pgid="pgtrigger_count_update_8ae5c",
                    referencing="REFERENCING OLD TABLE AS old_rows  NEW TABLE AS new_rows ",
                    table="pools_reservation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="reservation",
            trigger=pgtrigger.compiler.Trigger(
                name="count_delete",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n            WITH moved AS MATERIALIZED (\n                SELECT pool_id, owner, sum(used) AS used, sum(total_usage) AS total_usage,\n                    sum(live_workflows) AS live_workflows, sum(committed) AS committed\n                FROM (\n        SELECT pool_id, owner,\n            -CASE WHEN priority = 'LOW' THEN 0 ELSE held_gpus END AS used,\n            -held_gpus AS total_usage,\n            -1 AS live_workflows,\n            -CASE WHEN priority = 'LOW' THEN 0\n                ELSE GREATEST(held_gpus, needed_gpus) END AS committed\n        FROM old_rows\n    ) rows GROUP BY pool_id, owner\n            ), work AS (\n                INSERT INTO pools_livework AS kept (pool_id, owner, workflows)\n                    SELECT pool_id, owner, live_workflows FROM moved WHERE live_workflows <> 0 ORDER BY pool_id, owner\n                    ON CONFLICT (owner, pool_id) DO UPDATE SET workflows = kept.workflows + excluded.workflows\n            )\n            UPDATE pools_leafusage leaf SET\n                used = leaf.used + moved.used,\n                total_usage = leaf.total_usage + moved.total_usage,\n                live_workflows = leaf.live_workflows + moved.live_workflows,\n                committed = leaf.committed + moved.committed\n            FROM (\n                SELECT pool_id, sum(used) AS used, sum(total_usage) AS total_usage,\n                    sum(live_workflows) AS live_workflows, sum(committed) AS committed\n                FROM moved GROUP BY pool_id\n            ) moved\n            WHERE leaf.pool_id = moved.pool_id;\n            MERGE INTO pools_flavorusage kept USING (\n                SELECT pool_id, flavor, sum(used) AS used, sum(total_usage) AS total_usage, sum(committed) AS committed\n                FROM (\n        SELECT pool_id, count.key AS flavor,\n            -CASE WHEN priority = 'LOW' THEN 0 ELSE (count.value->>0)::bigint END AS used,\n            -(count.value->>0)::bigint AS total_usage,\n            -CASE WHEN priority = 'LOW' THEN 0 ELSE GREATEST((count.value->>0)::bigint, (count.value->>1)::bigint) END AS committed\n        FROM old_rows, jsonb_each(by_flavor) AS count\n    ) rows GROUP BY pool_id, flavor\n            ) moved ON moved.pool_id = kept.pool_id AND moved.flavor = kept.flavor\n            WHEN MATCHED THEN UPDATE SET\n                used = kept.used + moved.used,\n                total_usage = kept.total_usage + moved.total_usage,\n                committed = kept.committed + moved.committed\n            WHEN NOT MATCHED THEN INSERT (pool_id, flavor, used, total_usage, committed)\n                VALUES (moved.pool_id, moved.flavor, moved.used, moved.total_usage, moved.committed);\n            RETURN NULL;\n        ",
                    hash="ecaeaef643bfae5899c15d0b43ea60079420ec73",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_count_delete_bee3d",
                    referencing="REFERENCING OLD TABLE AS old_rows ",
                    table="pools_reservation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="reservation",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of reservations cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="23491deb81c1c8380f2a181a22f284081f24433c",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_38602",
                    table="pools_reservation",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="roleassignment",
            constraint=models.UniqueConstraint(fields=("user", "group"), name="role_once_per_user"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="roleassignment",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD); END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW); END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'role.granted' WHEN 'DELETE' THEN 'role.revoked' ELSE 'role.updated' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'user/' || (SELECT username FROM pools_user WHERE id = COALESCE(NEW.user_id, OLD.user_id)), before_row || jsonb_build_object('role', (SELECT name FROM auth_group WHERE id = COALESCE(NEW.group_id, OLD.group_id))), after_row || jsonb_build_object('role', (SELECT name FROM auth_group WHERE id = COALESCE(NEW.group_id, OLD.group_id))),\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, (SELECT username FROM pools_user WHERE id = COALESCE(NEW.user_id, OLD.user_id)), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="50d92ad66018d9fc8234cbcc8b4776b5b0dc1ec4",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_3cffe",
                    table="pools_roleassignment",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="roleassignment",
            trigger=pgtrigger.compiler.Trigger(
                name="owned_by_git",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE subject text; owner pools_configurationowner%ROWTYPE;",
                    func="\n                IF TG_OP = 'UPDATE' AND (NEW.user_id, NEW.group_id) = (OLD.user_id, OLD.group_id) THEN RETURN NULL; END IF;\n                subject := (SELECT name FROM auth_group WHERE id = COALESCE(OLD.group_id, NEW.group_id));\n                SELECT * INTO owner FROM pools_configurationowner\n                    WHERE kind = 'role' AND name = subject ;\n                IF NOT FOUND OR owner.source = COALESCE(current_setting('osmo.source', true), '') THEN\n                    RETURN NULL;\n                END IF;\n                RAISE EXCEPTION '%/% is owned by Git (%), so it is read-only here. Change it in that file, or release '\n                    'it on the server with: osmo-admin release %/%', owner.kind, owner.name,\n                    concat_ws(', ', owner.source, NULLIF(owner.path, ''),\n                        'commit ' || NULLIF(left(owner.commit, 12), '')),\n                    owner.kind, owner.name\n                    USING ERRCODE = 'check_violation', CONSTRAINT = 'owned_by_git', TABLE = TG_TABLE_NAME,\n                    DETAIL = jsonb_build_object('owner', 'git', 'source', owner.source, 'path', owner.path,\n                        'commit', owner.commit)::text;\n            ",
                    hash="9a1e3639ee55dac3fec6beb5a3b251a732be28ab",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_owned_by_git_99476",
                    table="pools_roleassignment",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="roleassignment",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of roles cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="af4de83790e3c55f7f5d564f76853b6d7fb834d1",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_adb5f",
                    table="pools_roleassignment",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="user",
            index=models.Index(django.db.models.functions.text.Upper("username"), name="user_name_in_capitals"),
        ),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.CheckConstraint(
                condition=models.Q(("is_removed", False), ("is_active", False), _connector="OR"),
                name="removed_user_is_inactive",
                violation_error_message="A removed account is not enabled; create the user again.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="user",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['last_login', 'is_removed']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['last_login', 'is_removed']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'user.created' WHEN 'DELETE' THEN 'user.deleted' ELSE CASE WHEN OLD.password <> NEW.password THEN 'user.password_changed' WHEN NEW.password_login_at IS DISTINCT FROM OLD.password_login_at THEN 'user.logged_in_by_password' ELSE 'user.updated' END END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'user/' || COALESCE(NEW.username, OLD.username), before_row - ARRAY['password']::text[], after_row - ARRAY['password']::text[],\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, COALESCE(NEW.username, OLD.username), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="0ce67d2d318946106bb2d6d392bff3cb71d31e36",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_899d2",
                    table="pools_user",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="user",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of users cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="738f35aa47a04215a7b3468907f68b9bd8efd3b0",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_1af80",
                    table="pools_user",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="user",
            trigger=pgtrigger.compiler.Trigger(
                name="unlike_names",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE other text;",
                    func="\n        IF NEW.is_active AND (TG_OP = 'INSERT' OR NEW.username <> OLD.username OR NOT OLD.is_active) THEN\n            PERFORM pg_advisory_xact_lock(hashtextextended('pools_user ' || upper(NEW.username), 0));\n            SELECT username INTO other FROM pools_user\n                WHERE upper(username) = upper(NEW.username) AND is_active AND id <> NEW.id LIMIT 1;\n            IF other IS NOT NULL THEN\n                RAISE EXCEPTION 'User % exists already, and the names differ in capitals only: choose another name, or disable it.', other USING ERRCODE = 'check_violation', CONSTRAINT = 'username_differs_in_capitals', TABLE = TG_TABLE_NAME;\n            END IF;\n        END IF;\n        RETURN NULL;\n    ",
                    hash="38982e650da7c58d04b0d7b661ff852b0fde05d3",
                    operation='INSERT OR UPDATE OF "username", "is_active"',
                    pgid="pgtrigger_unlike_names_02122",
                    table="pools_user",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="savedview",
            constraint=models.UniqueConstraint(
                fields=("owner", "page", "name"),
                name="saved_view_name_once",
                violation_error_message="This list has a view of this name already.",
            ),
        ),
        migrations.AddIndex(
            model_name="signonidentity",
            index=models.Index(fields=["checked_at"], name="sign_on_checked"),
        ),
        migrations.AddConstraint(
            model_name="signonidentity",
            constraint=models.UniqueConstraint(fields=("issuer", "subject"), name="subject_once_per_issuer"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="signonidentity",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['checked_at', 'valid_until', 'session_until', 'refresh_token', 'id_token', 'claimed_until']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['checked_at', 'valid_until', 'session_until', 'refresh_token', 'id_token', 'claimed_until']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'sign_on.linked' WHEN 'DELETE' THEN 'sign_on.unlinked' ELSE CASE WHEN NEW.epoch <> OLD.epoch THEN 'sign_on.ended' WHEN NEW.signed_on_at <> OLD.signed_on_at THEN 'sign_on.signed_on' ELSE 'sign_on.updated' END END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'user/' || (SELECT username FROM pools_user WHERE id = COALESCE(NEW.user_id, OLD.user_id)), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, (SELECT username FROM pools_user WHERE id = COALESCE(NEW.user_id, OLD.user_id)), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="8f433a56a9fd29a8c05070ef22a7950d71dce702",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_16268",
                    table="pools_signonidentity",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="signonidentity",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of accounts at identity providers cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="169a371e9df86c9cdc39d1c6ce3e05f8939a4f87",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_9813f",
                    table="pools_signonidentity",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="accesstoken",
            constraint=models.UniqueConstraint(fields=("owner", "name"), name="token_name_once_per_owner"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="accesstoken",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['last_used_at']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['last_used_at']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'token.created' WHEN 'UPDATE' THEN 'token.updated' ELSE 'token.deleted' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'token/' || COALESCE(NEW.name, OLD.name), before_row - ARRAY['digest']::text[] || jsonb_build_object('owner', (SELECT username FROM pools_user WHERE id = COALESCE(NEW.owner_id, OLD.owner_id))), after_row - ARRAY['digest']::text[] || jsonb_build_object('owner', (SELECT username FROM pools_user WHERE id = COALESCE(NEW.owner_id, OLD.owner_id))),\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, (SELECT username FROM pools_user WHERE id = COALESCE(NEW.owner_id, OLD.owner_id)), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="72854907109fd1218ba2567396fa1fc26caf0907",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_fc0fe",
                    table="pools_accesstoken",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="accesstoken",
            trigger=pgtrigger.compiler.Trigger(
                name="token_within_parent",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    constraint="CONSTRAINT",
                    declare="DECLARE wrong text; above text;",
                    func="\n        SELECT child.name, parent.name INTO wrong, above\n            FROM pools_accesstoken child JOIN pools_accesstoken parent ON parent.id = child.parent_id\n            WHERE (child.id = NEW.id OR parent.id = NEW.id) AND (\n                child.expires_at > parent.expires_at\n                OR parent.roles IS NOT NULL AND (\n                    child.roles IS NULL\n                    OR child.owner_id = parent.owner_id AND NOT child.roles <@ parent.roles\n                )\n            )\n            LIMIT 1;\n        IF wrong IS NOT NULL THEN\n            RAISE EXCEPTION 'The token % was made with the token %: it can neither have more roles nor live longer.', wrong, above USING ERRCODE = 'check_violation', CONSTRAINT = 'token_within_parent', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NULL;\n    ",
                    hash="e743fc94447d2ac3f3e261f0a7ba61c7bd2af2d1",
                    operation='INSERT OR UPDATE OF "owner_id", "parent_id", "roles", "expires_at"',
                    pgid="pgtrigger_token_within_parent_48728",
                    table="pools_accesstoken",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="accesstoken",
            trigger=pgtrigger.compiler.Trigger(
                name="digest_is_final",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update of \"digest\" rows from % table', TG_TABLE_NAME;",
                    hash="b64c6040f4fda63d14a5bbded61e3bf8b6c22cb2",
                    operation='UPDATE OF "digest"',
                    pgid="pgtrigger_digest_is_final_55767",
                    table="pools_accesstoken",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="accesstoken",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of tokens cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="b0318e7101db07b861d13dcf2defb01e50eedd7d",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_cb181",
                    table="pools_accesstoken",
                    when="BEFORE",
                ),
            ),
        ),
    ]
