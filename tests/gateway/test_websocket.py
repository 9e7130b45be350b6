"""The WebSocket as a client meets it."""

from __future__ import annotations

from tests.support.server import RunningGateway
from tests.support.socket import Socket
from vivace.engines.scripted import Reply, Say


def test_text_arrives_in_the_order_of_the_wire(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(then=(Say("Hello world"),))])
    with Socket(gateway.url) as socket:
        socket.create("Hi")
        kinds = [event["type"] for event in socket.until_end()]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
