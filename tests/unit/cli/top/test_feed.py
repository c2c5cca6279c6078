"""The data of `shardmill top`: conditional requests in turn, and an unreachable API."""

import pytest

from shardmill.cli.top.feed import MAX_DELAY_SECONDS, TICK_SECONDS, Feed
from shardmill.client.client import Client
from support.fakes.api import TOKEN, FakeApi, Reply, Request, job, page, step, worker
from support.fakes.overview import overview

RUNNING = job("RUNNING", step("main", total=12, done=5), step("merge", "WAITING", total=1))


@pytest.fixture
def feed(api: FakeApi) -> Feed:
    return Feed(Client("http://api", TOKEN, transport=api.transport()), clock=lambda: 7.0)


def conditional(content: object) -> object:
    """A reply with an ETag, which is 304 if the request knows it."""

    def reply(request: Request) -> Reply:
        if request.headers.get("if-none-match") == '"e1"':
            return Reply(None, 304, {"etag": '"e1"'})
        return Reply(content, 200, {"etag": '"e1"'})

    return reply


def test_everything_is_read_in_turn_and_unchanged_answers_have_no_content(api: FakeApi, feed: Feed) -> None:
    api.on("GET", "/v1/now", conditional(overview(running=[RUNNING])))
    api.on("GET", "/v1/workers", conditional(page(worker())))
    api.on("GET", "/v1/jobs/report/t1", conditional(RUNNING))
    delays = [feed.read_next() for _ in range(8)]
    assert [line.split("/v1/")[1] for line in api.request_lines[:4]] == [
        "now",
        "workers",
        "jobs/report/t1",
        "now",
    ]
    assert delays == [0.0, 0.0, *[TICK_SECONDS] * 6]
    known = [request.headers.get("if-none-match") for request in api.requests]
    assert known == [None, None, None, *['"e1"'] * 5]
    assert feed.snapshot.now["live"]["RUNNING"]["items"][0]["trigger"] == "t1"
    assert feed.snapshot.workers[0]["name"] == "w1"
    assert feed.snapshot.progress == {RUNNING["id"]: (5, 13)}
    assert feed.snapshot.read_at == 7.0


def test_at_most_30_requests_a_minute(api: FakeApi, feed: Feed) -> None:
    api.on("GET", "/v1/now", overview(running=[RUNNING]))
    api.on("GET", "/v1/workers", page(worker()))
    api.on("GET", "/v1/jobs/report/t1", RUNNING)
    waited = 0.0
    while waited < 600:
        waited += feed.read_next()
    assert len(api.requests) <= 302


def test_an_unreachable_api_keeps_the_data_and_is_polled_less_often(api: FakeApi, feed: Feed) -> None:
    api.on("GET", "/v1/now", overview(), Reply({"detail": "down"}, 503), overview(running=[RUNNING]))
    api.on("GET", "/v1/workers", page(worker()))
    for _ in range(3):
        feed.read_next()
    assert feed.read_next() == 2 * TICK_SECONDS
    assert feed.snapshot.error
    assert feed.snapshot.now["groups"]
    assert feed.read_next() == TICK_SECONDS
    assert feed.snapshot.error == ""


def test_the_delay_after_failures_is_limited(api: FakeApi, feed: Feed) -> None:
    api.on("GET", "/v1/now", Reply({"detail": "down"}, 503))
    assert [feed.read_next() for _ in range(6)] == [4.0, 8.0, 16.0, *[MAX_DELAY_SECONDS] * 3]
