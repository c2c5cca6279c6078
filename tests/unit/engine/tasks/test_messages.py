"""Routes of messages, as the state machine passes them on."""

from shardmill.engine.tasks.messages import Route


def test_a_route_without_copies_is_the_queue_as_in_earlier_releases() -> None:
    assert Route("https://sqs/1/q").encode() == "https://sqs/1/q"


def test_a_route_is_read_as_it_was_written() -> None:
    for route in (Route("https://sqs/1/q"), Route("https://sqs/1/q", "https://sqs/1/copies")):
        assert Route.decode(route.encode()) == route
