"""Django settings. The settings of the operator are in :mod:`osmo_admin.env`; all others are fixed here."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured
from psycopg import pq

from osmo_admin import __version__
from osmo_admin import env as environment
from osmo_admin.web.static_build import find_build, source_hash

ENV = environment.load_environment()
BASE_DIR = Path(__file__).resolve().parent.parent


def database_settings(url: str) -> dict[str, object]:
    """`postgresql://user:password@host:port,host:port/name?host=/socket/dir` as Django's dictionary. Several hosts are
    tried in their order (libpq, "Specifying Multiple Hosts"). Raises ImproperlyConfigured."""
    try:
        parts = urlsplit(url)
    except ValueError as problem:  # brackets that do not match
        raise ImproperlyConfigured(_ADDRESS_FORM) from problem
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured(
            "DATABASE_URL must be a postgresql:// address: the ledger needs triggers and row locks of PostgreSQL."
        )
    query = dict(parse_qsl(parts.query))
    if unknown := sorted(query.keys() - {each.keyword.decode() for each in pq.Conninfo.get_defaults()}):
        raise ImproperlyConfigured(f"DATABASE_URL has parameters that PostgreSQL does not know: {', '.join(unknown)}.")
    hosts, ports = _hosts_and_ports(parts.netloc.rpartition("@")[2])
    # Reads that wait for an ALTER TABLE time out too; changes set the same limit themselves.
    limits = f"-c lock_timeout={ENV.lock_timeout_ms} {query.pop('options', '')}".strip()
    options: dict[str, object] = {"application_name": "osmo-admin", "connect_timeout": 5, "options": limits}
    # psycopg's own number: with Django's None it prepares nothing, even with `prepare=True`
    # (`pools/database/backend`). What Django's cursors send is never prepared, because the values are in the text.
    options["prepare_threshold"] = 5
    if ENV.db_pool_size:
        options["pool"] = {"min_size": 1, "max_size": ENV.db_pool_size, "timeout": 10}
    return {
        "ENGINE": "pools.database.backend",
        "NAME": unquote(parts.path.lstrip("/")) or "postgres",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": query.pop("host", None) or hosts,
        "PORT": query.pop("port", None) or ports,
        "OPTIONS": options | query,
        "CONN_MAX_AGE": 0 if ENV.db_pool_size else 60,
        "CONN_HEALTH_CHECKS": True,
    }


def _hosts_and_ports(text: str) -> tuple[str, str]:
    """`h1:5432,[::1]:5433` as (`h1,::1`, `5432,5433`), which is how libpq takes several."""
    found = [_HOST.fullmatch(each) for each in text.split(",")]
    if None in found:
        raise ImproperlyConfigured(_ADDRESS_FORM)
    hosts = [unquote(each[1] or each[2]) for each in found if each]
    ports = [each[3] or "" for each in found if each]
    return ",".join(hosts), ",".join(ports) if any(ports) else ""


_ADDRESS_FORM = (
    "DATABASE_URL must name its servers as HOST:PORT, several separated by commas. A port is a number; an IPv6 address "
    "is in brackets; characters such as @ : / ? # in a name or password are written as %40 %3A %2F %3F %23."
)
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\[\]:@]*))(?::([0-9]{1,5})?)?")


# --- identity and secrets ---------------------------------------------------------------------------------------
# Without a key, commands that need no secret (migrate, check, schema) still run, but a system check refuses to serve.
SECRET_KEY = ENV.secret_key or "insecure-no-key-configured"
SECRET_KEY_FALLBACKS = ENV.secret_key_fallbacks  # replaced keys: data that they signed or encrypted stays valid
DEBUG = ENV.debug
ALLOWED_HOSTS = ENV.allowed_hosts
CSRF_TRUSTED_ORIGINS = ENV.csrf_trusted_origins

# --- apps --------------------------------------------------------------------------------------------------------
INSTALLED_APPS = [
    "osmo_admin.apps.OsmoAdminConfig",
    "osmo_admin.apps.OsmoAdminSiteConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "axes",
    "csp",
    "django_celery_beat",
    "django_prometheus",
    "django_structlog",
    "pgtrigger",
    "pools",
    "scheduling",
]
AUTH_USER_MODEL = "pools.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATA_UPLOAD_MAX_MEMORY_SIZE = ENV.body_limit_mb * 1024 * 1024  # the default allows 500 workflow files in one request
# The server has the whole body in memory already; uploaded files are never written to a disk.
FILE_UPLOAD_MAX_MEMORY_SIZE = DATA_UPLOAD_MAX_MEMORY_SIZE
FILE_UPLOAD_HANDLERS = ["django.core.files.uploadhandler.MemoryFileUploadHandler"]

# The outermost first. Requests of programs pass the same list without SKIPPED_BY_PROGRAMS.
MIDDLEWARE = [
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "osmo_admin.web.middleware.OneSlashMiddleware",
    "osmo_admin.web.programs.ProgramMiddleware",  # decides who calls
    "django.middleware.security.SecurityMiddleware",
    "osmo_admin.web.static_files.StaticFilesMiddleware",
    "osmo_admin.web.static_files.PageCompressionMiddleware",
    "osmo_admin.web.content_policy.ContentPolicyMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "osmo_admin.web.programs.SessionMiddleware",
    "osmo_admin.web.middleware.SnapshotMiddleware",  # inside the middleware that saves the session
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "osmo_admin.web.programs.AuthenticationMiddleware",
    "osmo_admin.web.middleware.RequestLogMiddleware",
    "osmo_admin.web.programs.MessageMiddleware",
    "osmo_admin.web.middleware.PageParametersMiddleware",
    "axes.middleware.AxesMiddleware",
    "osmo_admin.monitoring.request_metrics.RequestMetricsMiddleware",
]
SKIPPED_BY_PROGRAMS = [
    "osmo_admin.web.programs.SessionMiddleware",
    "osmo_admin.web.programs.AuthenticationMiddleware",  # of browsers; the views authenticate programs
    "osmo_admin.web.programs.MessageMiddleware",
]
if ENV.traces_url:
    MIDDLEWARE.insert(
        0, "osmo_admin.monitoring.tracing.TracingMiddleware"
    )  # outside: the log line of a request is in its span
APPEND_SLASH = False  # the paths of the API are exact; a redirect would turn a POST into a GET
ROOT_URLCONF = "osmo_admin.urls"
WSGI_APPLICATION = "osmo_admin.wsgi.application"

# Templates and static files are inside the wheel (see pyproject.toml); in a checkout they are at the top.
_PACKAGED = Path(__file__).resolve().parent / "_bundle"
_ASSETS = _PACKAGED if _PACKAGED.is_dir() else BASE_DIR
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [_ASSETS / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

# --- data --------------------------------------------------------------------------------------------------------
DATABASES = {"default": database_settings(ENV.database_url or "postgresql:///osmo")}
REDIS_URL = ENV.redis_url or "redis://127.0.0.1:6379/0"
CACHES = {
    "default": {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": REDIS_URL,
        # A lost cache costs speed only.
        "OPTIONS": {
            "IGNORE_EXCEPTIONS": True,
            "SOCKET_CONNECT_TIMEOUT": 1,
            "SOCKET_TIMEOUT": 1,
            # The default reads pickles, which run code of anyone with write access to Redis.
            "SERIALIZER": "django_redis.serializers.json.JSONSerializer",
        },
        "KEY_PREFIX": "osmo",
    }
}
SESSION_ENGINE = "osmo_admin.access.sessions"
LANGUAGE_CODE = "en"
USE_I18N = True
TIME_ZONE = "UTC"
USE_TZ = True

# --- static files ------------------------------------------------------------------------------------------------
STATIC_URL = "/static/"
STATIC_SOURCES = _ASSETS / "static"
# Where builds are: next to the sources, or in the data directory if the package cannot be written.
STATIC_BUILDS = [_ASSETS / ".static", *([ENV.data_dir / "static"] if ENV.data_dir else [])]
STATIC_ROOT = find_build(STATIC_BUILDS, source_hash(STATIC_SOURCES))
STATICFILES_DIRS = [STATIC_SOURCES]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "osmo_admin.web.static_files.BuiltFiles"
        if STATIC_ROOT
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
WHITENOISE_KEEP_ONLY_HASHED_FILES = True
WHITENOISE_ALLOW_ALL_ORIGINS = False  # other sites have no use for our files
WHITENOISE_USE_FINDERS = True  # files that are not built are served from their source folders

# --- login ---------------------------------------------------------------------------------------------------------
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
    "pools.sign_on.backend.SignOnBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "pools.security.password_rules.NotTheNameValidator"},
]
PASSWORD_HASHERS = ["osmo_admin.access.password_hashing.OneAtATimeHasher"]
LOGIN_URL = "admin:login"
CSRF_FAILURE_VIEW = "osmo_admin.web.csrf_failure.csrf_failure_page"
LOGIN_REDIRECT_URL = "admin:index"  # without a next page, or with one of another site
DEV_LOGIN = ENV.dev_login  # the `x-osmo-user` header is trusted only in this mode
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_HANDLER = "osmo_admin.access.login_limits.LoginHandler"
AXES_DISABLE_ACCESS_LOG = True  # a row for each login, which nothing here reads or deletes
AXES_RESET_ON_SUCCESS = True
AXES_HTTP_RESPONSE_CODE = 429
AXES_LOCKOUT_CALLABLE = "osmo_admin.access.login_limits.lockout_response"
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = (
    False  # a script with an old password must not lock out the user forever
)
AXES_CLIENT_IP_CALLABLE = "osmo_admin.web.client_address.client_address"
AXES_VERBOSE = False
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = ENV.secure
SECURE_SSL_REDIRECT = False  # TLS ends at the ingress; /health must answer probes over HTTP
SILENCED_SYSTEM_CHECKS = ["security.W008"]  # intended, see the line above
SECURE_HSTS_SECONDS = 31_536_000 if ENV.secure else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = ENV.secure
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if ENV.proxy_count else None
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"
# The policy of API responses; osmo_admin.web.content_policy has the one of pages.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {name: ["'none'"] for name in ("default-src", "frame-ancestors", "base-uri", "form-action")}
}

# --- API ----------------------------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "pools.api.authentication.BearerAuthentication",
        "pools.api.authentication.DevHeaderAuthentication",
        "pools.api.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["pools.api.rendering.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["pools.api.request_parsing.JSONParser"],
    "EXCEPTION_HANDLER": "osmo_admin.web.error_responses.exception_handler",
    "DEFAULT_SCHEMA_CLASS": "osmo_admin.api_document.openapi.AutoSchema",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
    "DATETIME_FORMAT": "%Y-%m-%dT%H:%M:%S.%f",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "OSMO Admin",
    "VERSION": __version__,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {
        "deepLinking": True,
        "filter": True,  # the page holds only the operations in view, so the browser's own search misses most
        "validatorUrl": None,
    },  # the default requests a badge from another host
    "SERVE_INCLUDE_SCHEMA": False,
    "POSTPROCESSING_HOOKS": ["osmo_admin.api_document.openapi.complete"],
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
}

# --- background work ------------------------------------------------------------------------------------------------
# Celery has its own notation of a Unix socket; the database number is a query parameter in both.
CELERY_BROKER_URL = (
    REDIS_URL.replace("unix://", "redis+socket://", 1).replace("?db=", "?virtual_host=", 1)
    if REDIS_URL.startswith("unix://")
    else REDIS_URL
)
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]  # no pickles
CELERY_RESULT_BACKEND = None  # results are stored in the database by the tasks themselves
CELERY_TASK_IGNORE_RESULT = True
CELERY_RESULT_EXPIRES = None  # else beat adds a job that deletes results, of which there are none
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CHANNEL_ERROR_RETRY = True  # a server that answers with an error, as a replica does during a failover
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # the default of 100 would end the worker after an hour without a broker
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 600, "socket_connect_timeout": 2, "socket_timeout": 5}
CELERY_BEAT_SCHEDULER = "osmo_admin.processes.beat:Scheduler"
CELERY_BEAT_SYNC_EVERY = 1  # the last run of a job is stored with each run, for the pages
CELERY_TIMEZONE = "UTC"
DJANGO_CELERY_BEAT_TZ_AWARE = True
DJANGO_STRUCTLOG_CELERY_ENABLED = True

# --- OSMO Admin -----------------------------------------------------------------------------------------------------
OSMO = ENV
PRODUCT_VERSION = __version__

# --- logs -------------------------------------------------------------------------------------------------------------
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "structured": {
            "()": "osmo_admin.monitoring.logs.formatter",
            "style": ENV.log_format,
            "more_processors": ["osmo_admin.monitoring.tracing.add_trace_ids"] if ENV.traces_url else [],
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        "apprise": {
            "handlers": [],
            "level": "CRITICAL",
            "propagate": False,
        },  # its messages contain addresses of people
        "django_structlog": {"level": "INFO"},
        "osmo_admin": {"level": "INFO"},
        "pools": {"level": "INFO"},
        "scheduling": {"level": "INFO"},
    },
}
