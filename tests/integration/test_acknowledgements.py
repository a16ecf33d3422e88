"""A message that cannot be acknowledged takes no place among those that a worker may hold."""

from __future__ import annotations

from typing import Any

import pytest
from kombu import Connection, Queue

import osmo_admin.celery  # noqa: F401  (it names our transport)
from osmo_admin.processes.broker import LostConnection, RedisQoS
from tests.support.services import Services


@pytest.mark.parametrize("way", ["ack", "reject"])
def test_a_refused_acknowledgement_takes_no_place(
    running_services: Services, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    def refuse(*_: Any) -> None:
        raise LostConnection("refused")

    address = running_services.redis_url().replace("unix://", "redis+socket://").replace("?db=", "?virtual_host=")
    with Connection(address) as connection, connection.channel() as channel:
        queue = Queue(f"refused-{way}")(channel)
        queue.declare()
        channel.basic_qos(prefetch_count=2)
        with connection.Producer(channel) as producer:
            for number in range(3):
                producer.publish({"number": number}, routing_key=queue.name, serializer="json")
        held = [queue.get(no_ack=False), queue.get(no_ack=False)]
        assert not channel.qos.can_consume()

        monkeypatch.setattr(RedisQoS, "_remove_from_indices", refuse)
        for message in held:
            with pytest.raises(LostConnection):
                getattr(message, way)()
        assert channel.qos.can_consume()
        assert channel.client.hlen("unacked") == 2, "the broker keeps them and delivers them again"

        monkeypatch.undo()
        assert queue.get(no_ack=True).payload == {"number": 2}
        channel.client.delete("unacked", "unacked_index")
