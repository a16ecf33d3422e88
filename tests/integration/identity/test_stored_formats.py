"""What is read back from Redis is data, never code; static files are for this site."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from django.conf import settings
from django.core.cache import cache
from django.test import Client
from django_redis import get_redis_connection

from osmo_admin.celery import app


class Planted:
    """An object whose pickle runs code when it is read."""

    ran: list[str] = []

    def __reduce__(self) -> Any:
        return Planted.ran.append, ("code of a stranger",)


def test_a_pickle_in_the_cache_is_not_run() -> None:
    cache.set("planted", {"some": "data"})
    assert cache.get("planted") == {"some": "data"}
    get_redis_connection("default").set(cache.make_key("planted"), pickle.dumps(Planted()))
    with pytest.raises(ValueError, match="utf-8|JSON|Expecting"):
        cache.get("planted")
    assert Planted.ran == []
    cache.delete("planted")


def test_tasks_are_read_as_json_only() -> None:
    assert app.conf.accept_content == ["json"]
    assert app.conf.task_serializer == "json"


def test_static_files_are_not_offered_to_other_sites(db: None) -> None:
    assert settings.WHITENOISE_ALLOW_ALL_ORIGINS is False
    answer = Client().get("/static/osmo/osmo.css", headers={"Origin": "https://elsewhere.example"})
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers
    answer.close()
