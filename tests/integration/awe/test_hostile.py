"""Hostile requests get an answer of the client's fault, in the envelope, and never a 500."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardmill.api.routes import ROUTES
from support.moto.moto_cloud import moto_cloud
from support.scenarios.awe.awe_calls import AweCalls, task
from support.scenarios.awe.node_client import BOUNDARY, multipart

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
TASK_FIELDS = ("taskid", "cmd", "dependsOn", "inputs", "outputs", "predata", "totalwork", "maxworksize")
TASKS = st.lists(st.dictionaries(st.sampled_from((*TASK_FIELDS, "partinfo", "skip")), JSON), max_size=3)
INFO_FIELDS = ("name", "pipeline", "clientgroups", "priority", "auth", "noretry", "userattr", "user")
INFO = st.dictionaries(st.sampled_from(INFO_FIELDS), JSON)
PROFILE_FIELDS = ("id", "name", "group", "apps", "cores", "CPUs", "host", "proxy", "subclients", "user")
PROFILES = st.dictionaries(st.sampled_from(PROFILE_FIELDS), JSON) | JSON
FEW = settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)


@pytest.fixture(scope="module")
def awe() -> Iterator[AweCalls]:
    with moto_cloud() as cloud:
        yield AweCalls(cloud)


def check(answer: Any) -> None:
    assert answer.status < 500, answer
    assert answer.json["status"] == answer.status
    if answer.status >= 400:
        assert answer.json["data"] is None
        assert answer.json["error"]
        assert all(isinstance(text, str) and text for text in answer.json["error"])


@FEW
@given(info=INFO | JSON, tasks=TASKS | JSON)
def test_documents_cause_no_server_error(awe: AweCalls, info: Any, tasks: Any) -> None:
    check(awe.send("POST", "/job", upload=json.dumps({"info": info, "tasks": tasks}).encode()))


@FEW
@given(profile=PROFILES)
def test_profiles_cause_no_server_error(awe: AweCalls, profile: Any) -> None:
    check(awe.send("POST", "/client", profile=json.dumps(profile).encode()))


@FEW
@given(body=JSON)
def test_heartbeats_cause_no_server_error(awe: AweCalls, body: Any) -> None:
    client = awe.client("hostile", id="hostile-1")
    text = json.dumps(body).encode()
    check(awe.send("PUT", f"/client/{client.id}?heartbeat", text))
    check(awe.send("PUT", f"/client/{client.id}?heartbeat", b'{"current_work": ' + text + b"}"))


CALLS = [(route.method, route.path.removeprefix("/awe")) for route in ROUTES if route.awe]
NAMES = [
    *sorted({route.query for route in ROUTES if route.awe and route.query}),
    *(
        "limit",
        "offset",
        "order",
        "query",
        "state",
        "status",
        "client",
        "available",
        "report",
        "perf",
        "download",
    ),
    *("index", "part", "chunk_size", "upload_url", "sha256", "size", "file_name", "jobid", "json", "suspend"),
    *("resume", "recover", "recompute", "priority", "expiration", "verbosity", "date_end", "group", "other"),
]
VALUES = ["", "1", "-1", "0", "line", "1-2", "2-1", "9" * 40, "a" * 64, "\u00e9\0", "%", "done", "base64:x"]
FIELDS = ["upload", "profile", "attributes", "attributes_str", "parts", "1", "0", "perf", "stdout", "", 'x"y']
CONTENTS = [b"", b"{}", b"[1]", b"\xff\0", b"7", b"9" * 30, b'{"a": NaN}', b"\r\n--", b"x" * 3_000]
TYPES = ["", "application/json", "multipart/form-data", f"multipart/form-data; boundary={BOUNDARY}"]


@pytest.mark.parametrize("at", range(len(CALLS)), ids=[f"{method} {path}" for method, path in CALLS])
def test_random_requests_cause_no_server_error(awe: AweCalls, at: int) -> None:
    """Any query, body and form, whole or cut off, for each route; with ids that exist and that do not."""
    method, template = CALLS[at]
    choose = Random(at)  # not Hypothesis: the threads of the stack use the random module while it draws
    for ids in (known_ids(awe), dict.fromkeys(("job_id", "work_id", "client_id", "node_id", "name"), "x")):
        path = template
        for name, value in {**ids, "index": "line"}.items():
            path = path.replace(f"<{name}>", value)
        for _ in range(4):
            query = {choose.choice(NAMES): choose.choice(VALUES) for _ in range(choose.randrange(5))}
            form = {choose.choice(FIELDS): ("f", choose.choice(CONTENTS)) for _ in range(choose.randrange(4))}
            body = (
                multipart(form)[: -choose.choice([0, 0, 3, 50]) or None] if form else choose.choice(CONTENTS)
            )
            headers = {"content-type": choose.choice(TYPES), "authorization": f"OAuth {awe.token}"}
            address = f"/awe{path}?{urlencode(query)}"
            answer = awe.cloud.http(method, address, body, token=None, headers=headers)
            assert answer.status < 500, (method, address, body, answer)
            if answer.status >= 400:
                check(answer)
    awe.send("PUT", "/queue?resume")


def known_ids(awe: AweCalls) -> dict[str, str]:
    """Ids of a job with a unit, a client and a node."""
    client = awe.client("hostile", id="hostile-2")
    job = awe.submit(task(outputs={"o": {}}), clientgroups="hostile")["id"]
    node = awe.data("POST", "/node", upload=b"1\n2\n")["id"]
    return {
        "job_id": job,
        "work_id": f"{job}_0_0",
        "client_id": client.id,
        "node_id": node,
        "name": "hostile",
    }


BODIES = [
    b"",
    b"\xff\xfe\x00",
    b"{" * 100_000,
    b"[" * 2_000 + b"]" * 2_000,
    b'{"info": NaN, "tasks": Infinity}',
    b"{" + b'"a":1,' * 10 + b'"a":2}',
    b"x" * 1_200_000,
    json.dumps({"tasks": [{"cmd": {"name": "x"}, "inputs": {"../../etc/passwd": {"url": "u"}}}]}).encode(),
    json.dumps({"tasks": [{"cmd": {"name": "x" * 400_000}}]}).encode(),
    json.dumps({"tasks": [{"cmd": {"name": "{{ x"}, "taskid": "{{ y }}"}]}).encode(),
    json.dumps({"tasks": [{"cmd": {"name": "\0"}}]}).encode(),
    json.dumps({"tasks": [{"cmd": {"name": "x"}, "totalwork": 10**30}]}).encode(),
    json.dumps({"info": {"clientgroups": "lambda"}, "tasks": [{"cmd": {"name": "x"}}]}).encode(),
    json.dumps({"info": {"clientgroups": ",".join("abc"[n % 3] * n for n in range(1, 200))}}).encode(),
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
@pytest.mark.parametrize("path", ["/job", "/client", "/client/hostile-1?heartbeat", "/queue", "/job/x"])
def test_bodies_cause_no_server_error(awe: AweCalls, body: bytes, path: str) -> None:
    method = "POST" if path in ("/job", "/client") else "PUT"
    check(awe.send(method, path, body))
    field = "profile" if path == "/client" else "upload"
    check(awe.send(method, path, **{field: body}))


@pytest.mark.parametrize("kind", ["multipart/form-data", "multipart/form-data; boundary=", "text/plain", ""])
def test_content_types_cause_no_server_error(awe: AweCalls, kind: str) -> None:
    for path in ("/job", "/client", "/work/x?status=done&client=y"):
        method = "PUT" if path.startswith("/work") else "POST"
        headers = {"content-type": kind}
        check(awe.cloud.http(method, f"/awe{path}", b"--\r\n--", headers=headers))


IDS = ["x", "base64:", "base64:%ff", "base64:/w==", "..", "%00", "a_b_c", "9" * 300, "\u00e9", "_0_0"]
QUERIES = [
    "limit=-1",
    "limit=x",
    "offset=99999999999999999999",
    "order=\u00e9&direction=up",
    "date_start=0001-01-01",
    "date_end=9999-99-99",
    "query&info.userattr.a.b=c&state=x",
    "report=../../x",
    "heartbeat",
    "client=&available=x",
    "datatoken&client=x",
    "privateenv",
    "recompute=",
    "priority=",
    "expiration=0D",
    "subclients=-3",
    "status=done&client=x&computetime=x",
]


@pytest.mark.parametrize("path", ["/job", "/work", "/client", "/cgroup", "/queue"])
@pytest.mark.parametrize("query", QUERIES)
def test_queries_and_ids_cause_no_server_error(awe: AweCalls, path: str, query: str) -> None:
    check(awe.send("GET", f"{path}?{query}"))
    check(awe.send("PUT", f"{path}?{query}"))
    for identity in IDS:
        check(awe.send("GET", f"{path}/{identity}?{query}"))
        check(awe.send("PUT", f"{path}/{identity}?{query}"))


def test_unsupported_methods_get_405(awe: AweCalls) -> None:
    for path in ("/job", "/work/x", "/client/x", "/queue", ""):
        for method in ("PATCH", "OPTIONS", "HEAD"):
            answer = awe.send(method, path)
            assert answer.json["status"] == answer.status == 405


def test_reports_with_hostile_logs_cause_no_server_error(awe: AweCalls) -> None:
    client = awe.client()
    awe.submit(task(), clientgroups="docker")
    work = client.take()
    logs = {name: bytes(range(256)) * 20 for name in ("perf", "stdout", "stderr", "worknotes")}
    check(client.report(work, "what", **logs))
    check(client.report(work, "fail", **logs))
    assert BOUNDARY not in awe.data("GET", f"/work/{work['id']}?report=stdout")


@pytest.mark.parametrize("field", ["host", "user", "name", "group", "id"])
def test_a_lone_surrogate_in_a_profile_is_rejected(awe: AweCalls, field: str) -> None:
    answer = awe.send("POST", "/client", profile=b'{"%s": "x\\ud800"}' % field.encode())
    check(answer)
    assert answer.status == 400
    assert "surrogate" in answer.json["error"][0]


def test_a_lone_surrogate_in_attributes_is_rejected(awe: AweCalls) -> None:
    answer = awe.send("POST", "/node", attributes=b'{"sample": ["\\udfff"]}')
    check(answer)
    assert answer.status == 400
