"""Suspension and resumption of definitions and groups with the SDK."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shardmill.client.client import Client
from shardmill.client.errors import BadName, NotFound
from support.fakes.api import NOW, TOKEN, FakeApi, Reply, problem, saved

GROUP = {"id": "g", "name": "g", "kind": "pull", "leaseSeconds": 60, "createTime": NOW, "updateTime": NOW}
BUSY = problem(503, "busy", "ask again")
Act = Callable[[Client, str], Any]
ACTS: dict[str, tuple[str, Act]] = {
    "suspend_definition": (
        "/v1/definitions/report:suspend",
        lambda c, why: c.suspend_definition("report", why),
    ),
    "resume_definition": ("/v1/definitions/report:resume", lambda c, why: c.resume_definition("report", why)),
    "suspend_group": ("/v1/groups/g:suspend", lambda c, why: c.suspend_group("g", why)),
    "resume_group": ("/v1/groups/g:resume", lambda c, why: c.resume_group("g", why)),
    "suspend_all_groups": ("/v1/groups:suspend", lambda c, why: c.suspend_all_groups(why)),
    "resume_all_groups": ("/v1/groups:resume", lambda c, why: c.resume_all_groups(why)),
}


def response(path: str, suspended: str | None) -> Any:
    if "definitions" in path:
        return saved(suspended=suspended)
    return {**GROUP, "suspended": suspended} if "/g:" in path else Reply(status=204)


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def client(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with Client("http://127.0.0.1:1", TOKEN, transport=api.transport()) as started:
        yield started


@pytest.mark.parametrize("suspended", [None, "suspended by bob: a disk"])
@pytest.mark.parametrize(("path", "act"), ACTS.values(), ids=ACTS)
def test_suspension_requests_have_the_documented_form(
    api: FakeApi, client: Client, path: str, act: Act, suspended: str | None
) -> None:
    api.on("POST", path, response(path, suspended))
    results = [act(client, reason) for reason in ("", "a disk")]
    assert [each.document for each in api.requests] == [{}, {"reason": "a disk"}]
    single = "groups:" not in path
    assert [each.suspended if single else each for each in results] == [suspended if single else None] * 2


@pytest.mark.parametrize(("path", "act"), ACTS.values(), ids=ACTS)
def test_suspension_requests_are_retried(api: FakeApi, client: Client, path: str, act: Act) -> None:
    api.on("POST", path, BUSY, response(path, None))
    act(client, "")
    assert api.request_lines == [f"POST {path}"] * 2


@pytest.mark.parametrize(("path", "act"), ACTS.values(), ids=ACTS)
def test_unknown_names_are_not_found(api: FakeApi, client: Client, path: str, act: Act) -> None:
    api.on("POST", path, problem(404, "some-not-found", "there is none"))
    with pytest.raises(NotFound, match="there is none"):
        act(client, "")


def test_an_invalid_name_is_not_sent(api: FakeApi, client: Client) -> None:
    for act in (
        *(client.suspend_definition, client.resume_definition),
        *(client.suspend_group, client.resume_group),
    ):
        for name in ("", "a/b", "a:suspend"):
            with pytest.raises(BadName, match="is not a valid"):
                act(name)
    assert not api.requests
