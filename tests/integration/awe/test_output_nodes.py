"""The nodes of a job's outputs: clients upload under their attempt, and the engine's files are read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import pytest

from shardmill.aws.files import Files
from shardmill.engine.files.held_attempt import get_held_attempt
from shardmill.engine.nodes import work_token
from shardmill.engine.nodes.inputs import OwnNodes
from shardmill.engine.nodes.output_nodes import split_units
from shardmill.engine.nodes.work_outputs import WorkOutputs, work_outputs
from shardmill.engine.nodes.work_token import WorkToken
from shardmill.model.actor import Actor
from shardmill.model.awe.faults import DocumentFault
from shardmill.model.awe.names import JobNode
from shardmill.model.transfers import as_stored
from shardmill.model.worker import Lease
from support.moto.cloud import Cloud
from support.scenarios.access import Callers
from support.scenarios.awe.node_client import NodeClient
from support.scenarios.file_worker import FileWorker, place
from support.scenarios.job_runner import JobRunner

LINES = b"".join(b"line %d\n" % number for number in range(1, 11))
HOST = "http://test.execute-api.us-east-1.amazonaws.com/awe"


def step(name: str, **more: Any) -> dict[str, Any]:
    return {"stepName": name, "content": "x", **more}


ONE = step("one", outputs=[{"name": "log", "optional": True}, {"name": "out.txt"}])


class Client:
    """A client that holds one task: it shows the data token of its workunit to the node store."""

    def __init__(self, runner: JobRunner, lease: Lease) -> None:
        self.runner, self.lease = runner, lease
        job_id, index, rank = lease.task_id.split("_")
        worker_id = runner.worker.row.id
        self.work = WorkToken(job_id, lease.run, int(index), int(rank), lease.attempt, worker_id)
        self.token = work_token.mint(runner.mill.settings.token_key, self.work)
        self.nodes = NodeClient(runner.cloud, f"OAuth {self.token}")

    def node(self, output: int = 0, step: int | None = None) -> str:
        return str(JobNode(self.work.job_id, self.work.step if step is None else step, output))

    def outputs(self) -> WorkOutputs:
        held = get_held_attempt(
            self.runner.mill, self.work.worker_id, self.lease.task_id, self.lease.attempt, self.lease.run
        )
        return work_outputs(self.runner.mill, held)

    def done(self) -> None:
        """Report the attempt with what it uploaded."""
        found = self.outputs()
        assert found.faults == []
        self.runner.worker.report([self.lease], files=as_stored(found.stored))


def start(runner: JobRunner, *steps: dict[str, Any], count: int = 1) -> list[Client]:
    runner.define(*steps)
    runner.submit()
    return sorted((Client(runner, lease) for lease in runner.take(count)), key=lambda each: each.work.rank)


def test_an_upload_becomes_the_file_of_the_output_when_it_is_reported(
    runner: JobRunner, file_worker: FileWorker
) -> None:
    [client] = start(runner, ONE)
    node, admin = client.node(1), NodeClient(runner.cloud)
    files = {"upload": ("out.txt", b"result\n"), "attributes": ("attr", b'{"quality": 7}')}
    assert client.nodes.data("PUT", f"/{node}", files)["id"] == node
    assert admin.error("GET", f"/{node}?download") == (409, "Node has no file")
    client.done()
    assert runner.run()["state"] == "SUCCESS"
    assert admin.download(node) == b"result\n"
    read = admin.data("GET", f"/{node}")
    assert (read["file"]["name"], read["file"]["size"]) == ("out.txt", 7)
    assert read["attributes"] == {"quality": 7}
    [listed] = file_worker.listed()
    assert (listed["name"], listed["attributes"]) == ("out.txt", {"quality": 7})
    assert file_worker.read(listed["url"]) == b"result\n"


def test_a_node_exists_before_its_step_has_run(runner: JobRunner) -> None:
    runner.define(ONE, step("two", inputs=[{"name": "out.txt", "origin": "one"}], outputs=[{"name": "end"}]))
    job_id = runner.submit()["id"]
    runner.row(1)
    admin = NodeClient(runner.cloud)
    read = admin.data("GET", f"/{JobNode(job_id, 1, 0)}")
    assert (read["file"]["name"], read["file"]["size"]) == ("end", 0)
    for missing in (JobNode(job_id, 1, 1), JobNode(job_id, 7, 0), JobNode("0" * 8 + job_id[8:], 0, 0)):
        assert admin.error("GET", f"/{missing}")[0] == 404


def test_the_parts_of_a_split_are_read_by_index_and_joined_in_the_order_of_ranks(runner: JobRunner) -> None:
    made = NodeClient(runner.cloud).upload(LINES, "in.txt")
    own = OwnNodes(runner.mill, Actor("admin"), HOST, 1)(HOST, made["id"])
    assert own is not None
    source = {"name": "in.txt", "s3": {"bucket": runner.cloud.bucket, "key": own.key}, "node": made["id"]}
    by_line = {"index": "line", "byUnits": True}
    first = step(
        "a", sharding=4, inputs=[source], partition={"input": "in.txt", **by_line}, outputs=[{"name": "mid"}]
    )
    origin = {"name": "mid", "origin": "a", "pattern": "mid"}
    second = step(
        "b", sharding=3, inputs=[origin], partition={"input": "mid", **by_line}, outputs=[{"name": "end"}]
    )
    clients = start(runner, first, second, count=4)
    for client in reversed(clients):
        units = "{}-{}".format(*split_units(10, 4, client.work.rank))
        part = client.nodes.download(made["id"], f"&index=line&part={units}")
        field = str(client.work.rank + 1)
        client.nodes.data("PUT", f"/{client.node()}", {field: ("mid", part.upper())})
        client.done()
    assert NodeClient(runner.cloud).download(clients[0].node()) == LINES.upper()
    readers = sorted((Client(runner, lease) for lease in runner.take(3)), key=lambda each: each.work.rank)
    parts = [
        reader.nodes.download(
            reader.node(0, step=0), "&index=line&part={}-{}".format(*split_units(10, 3, reader.work.rank))
        )
        for reader in readers
    ]
    assert [part.count(b"\n") for part in parts] == [4, 3, 3]
    assert b"".join(parts) == LINES.upper()
    other = readers[2].nodes.download(readers[0].node(0, step=0), "&index=line&part=1-2")
    assert other == b"LINE 1\nLINE 2\n", "any part of the file, not only that of its own task"
    read = readers[0].nodes.data("GET", f"/{readers[0].node(0, step=0)}")
    assert (read["type"], read["parts"]["count"], read["parts"]["length"]) == ("parts", 4, 4)


@pytest.mark.parametrize(("total", "parts"), [(10, 4), (3, 3), (7, 1), (1000, 7)])
def test_units_are_divided_evenly_with_the_larger_parts_first(total: int, parts: int) -> None:
    found = [split_units(total, parts, rank) for rank in range(parts)]
    assert [number for first, last in found for number in range(first, last + 1)] == [*range(1, total + 1)]
    sizes = [last - first for first, last in found]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1


def test_fields_of_an_upload_fit_the_workunit(runner: JobRunner) -> None:
    clients = start(runner, step("a", sharding=2, outputs=[{"name": "o"}]), count=2)
    nodes, node = clients[0].nodes, clients[0].node()
    assert nodes.error("PUT", f"/{node}", {"upload": ("o", b"x")})[0] == 400, "it has two parts"
    assert nodes.error("PUT", f"/{node}", {"3": ("o", b"x")})[0] == 400
    assert nodes.error("PUT", f"/{node}", {"2": ("o", b"x")})[0] == 404, "the part of the other task"
    assert nodes.error("PUT", f"/{node}", {})[0] == 400
    assert nodes.error("DELETE", f"/{node}")[0] == 400
    nodes.data("PUT", f"/{node}", {"1": ("o", b"x")})


def test_only_the_holder_of_the_attempt_stores_outputs(runner: JobRunner) -> None:
    [client] = start(runner, {**ONE, "failedRetries": 1, "failedInterval": 0})
    node, files = client.node(1), {"upload": ("out.txt", b"late")}
    runner.worker.report([client.lease], "failed")
    assert client.nodes.error("PUT", f"/{node}", files)[0] == 409
    [lease] = runner.take(1)
    second = Client(runner, lease)
    second.nodes.data("PUT", f"/{node}", {"upload": ("out.txt", b"second")})
    assert client.nodes.error("PUT", f"/{node}", files)[0] == 409, "its attempt is over"
    second.done()
    assert second.nodes.error("GET", f"/{node}?download")[0] == 409, "a work token ends with its attempt"
    assert NodeClient(runner.cloud).download(node) == b"second"


def test_nodes_of_a_job_are_private_to_it(runner: JobRunner, cloud: Cloud) -> None:
    callers = Callers(cloud)
    groups = {"scope": "worker", "groups": ["default"]}
    group = NodeClient(cloud, f"CG_TOKEN {callers.with_scopes(groups).token}")
    other_user = NodeClient(cloud, f"OAuth {callers.with_scopes('submit', owner='eve').token}")
    [client] = start(runner, ONE)
    node, files = client.node(1), {"upload": ("out.txt", b"x")}
    wrong_key = work_token.mint("another key", client.work)
    for anonymous in (NodeClient(cloud, None), NodeClient(cloud, f"OAuth {wrong_key}")):
        assert anonymous.error("GET", f"/{node}")[0] == 401
        assert anonymous.error("PUT", f"/{node}", files)[0] == 401
    for other in (group, other_user):
        assert other.error("GET", f"/{node}")[0] == 404
        assert other.error("PUT", f"/{node}", files)[0] == 404
    runner.submit("t2")
    [second] = [Client(runner, lease) for lease in runner.take(1)]
    assert second.nodes.error("GET", f"/{node}")[0] == 404, "the work token of another job"
    client.nodes.data("PUT", f"/{node}", files)


def test_a_group_token_uploads_for_the_tasks_that_its_workers_hold(runner: JobRunner, cloud: Cloud) -> None:
    token = Callers(cloud).with_scopes({"scope": "worker", "groups": ["default"]})
    register = {"name": "awe-1", "groups": ["default"], "slots": 1}
    worker = token("POST", "/v1/workers", register).json
    [client] = start(runner, ONE)
    row = runner.mill.workers.get(worker["id"])
    assert row is not None
    runner.worker.report([client.lease], "rejected")
    runner.worker.row = row
    [lease] = runner.take(1, timeout=50)
    held, group = Client(runner, lease), NodeClient(cloud, f"CG_TOKEN {token.token}")
    group.data("PUT", f"/{held.node(1)}", {"upload": ("out.txt", b"by group")})
    assert group.data("GET", f"/{held.node(1)}")["id"] == held.node(1)
    held.done()
    assert NodeClient(cloud).download(held.node(1)) == b"by group"


def test_the_key_in_an_address_stands_for_the_data_token(runner: JobRunner) -> None:
    [client] = start(runner, ONE)
    made = NodeClient(runner.cloud).upload(b"reference")
    anonymous = NodeClient(runner.cloud, None)
    assert anonymous.error("GET", f"/{made['id']}?download&key={client.token}")[0] == 404, "not an input"
    client.nodes.data("PUT", f"/{client.node(1)}", {"upload": ("out.txt", b"x")})
    assert anonymous.data("GET", f"/{client.node(1)}?key={client.token}")["id"] == client.node(1)


def test_missing_and_empty_outputs_are_named(runner: JobRunner) -> None:
    outputs = [{"name": "a"}, {"name": "b", "nonzero": True}, {"name": "c", "optional": True}]
    [client] = start(runner, step("one", outputs=outputs))
    client.nodes.data("PUT", f"/{client.node(1)}", {"upload": ("b", b"")})
    assert client.outputs().faults == [
        "the output 'a' was not uploaded to the node store",
        "the output 'b' is empty",
    ]


def test_an_output_is_indexed_as_its_step_says_and_as_its_client_asks(runner: JobRunner) -> None:
    outputs = [{"name": "out", "uploadName": "out.txt", "uploadIndex": "line"}]
    [client] = start(runner, step("one", outputs=outputs))
    client.nodes.data("PUT", f"/{client.node()}", {"upload": ("out.txt", LINES)})
    made = client.nodes.data("PUT", f"/{client.node()}/index/line", {})
    assert made["indexes"]["line"]["total_units"] == 10
    [stored] = client.outputs().stored
    assert (stored.name, stored.indexed and stored.indexed.units) == ("out.txt", 10)
    client.done()
    read = NodeClient(runner.cloud).data("GET", f"/{client.node()}")
    assert read["indexes"]["line"]["total_units"] == 10


def test_attributes_may_follow_the_file_and_the_client_reads_what_it_uploaded(runner: JobRunner) -> None:
    [client] = start(runner, ONE)
    node, form = client.node(1), {"attributes": ("a", b'{"quality": 7}')}
    assert client.nodes.error("PUT", f"/{node}", form) == (409, "Node has no file")
    client.nodes.data("PUT", f"/{node}", {"upload": ("out.txt", b"1\n2\n")})
    assert client.nodes.data("PUT", f"/{node}", form)["attributes"] == {"quality": 7}
    read = client.nodes.data("GET", f"/{node}")
    assert (read["file"]["size"], read["attributes"]) == (4, {"quality": 7})
    made = client.nodes.data("PUT", f"/{node}/index/line", {})
    assert (made["file"]["size"], made["indexes"]["line"]["total_units"]) == (4, 2)
    assert NodeClient(runner.cloud).data("GET", f"/{node}")["file"]["size"] == 0, (
        "others see what was reported"
    )
    client.done()
    read = NodeClient(runner.cloud).data("GET", f"/{node}")
    assert (read["file"]["size"], read["attributes"]) == (4, {"quality": 7})


def test_attributes_are_stored_even_if_the_file_is_uploaded_concurrently(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    [client] = start(runner, ONE)
    node, form = client.node(1), {"attributes": ("a", b'{"quality": 7}')}
    client.nodes.data("PUT", f"/{node}", {"upload": ("out.txt", b"old")})
    relabel, calls = Files.relabel, list[str]()

    def raced(files: Files, key: str, labels: Mapping[str, str], etag: str) -> bool:
        calls.append(etag)
        if len(calls) == 1:
            client.nodes.data("PUT", f"/{node}", {"upload": ("out.txt", b"new")})
            return False  # as S3 answers then
        return relabel(files, key, labels, etag)

    monkeypatch.setattr(Files, "relabel", raced)
    client.nodes.data("PUT", f"/{node}", form)
    assert len({*calls}) == len(calls) == 2
    client.done()
    admin = NodeClient(runner.cloud)
    assert (admin.download(node), admin.data("GET", f"/{node}")["attributes"]) == (b"new", {"quality": 7})


def test_an_output_can_be_uploaded_by_a_presigned_address(runner: JobRunner) -> None:
    [client] = start(runner, ONE)
    digest = hashlib.sha256(b"large").hexdigest()
    answer = client.nodes.data("PUT", f"/{client.node(1)}?upload_url&sha256={digest}&size=5")
    labels = {"sha256": answer["upload"]["headers"]["x-amz-meta-sha256"]}
    s3 = runner.cloud.clients.s3
    s3.put_object(**place(answer["upload"]["url"]), Body=b"large", Metadata=labels)
    client.done()
    assert NodeClient(runner.cloud).download(client.node(1)) == b"large"


def test_an_output_of_one_job_is_an_input_of_another(runner: JobRunner) -> None:
    [client] = start(runner, ONE)
    client.nodes.data("PUT", f"/{client.node(1)}", {"upload": ("out.txt", b"shared")})
    own = OwnNodes(runner.mill, Actor("admin"), HOST, 1)
    with pytest.raises(DocumentFault, match="has no file yet"):
        own(HOST, client.node(1))
    client.done()
    file = own(HOST, client.node(1))
    assert file is not None
    assert file.size == len(b"shared")
    source = {"name": "in", "s3": {"bucket": runner.cloud.bucket, "key": file.key}, "node": client.node(1)}
    runner.define(step("next", inputs=[source]), name="second")
    runner.submit("t1", "second")
    [reader] = [Client(runner, lease) for lease in runner.take(1)]
    assert FileWorker(runner).fetch(reader.lease) == {"in": b"shared"}
    assert reader.nodes.download(client.node(1)) == b"shared"


def test_the_data_token_of_a_job_stands_for_its_clients(runner: JobRunner) -> None:
    runner.define(ONE, info={"auth": True})
    runner.submit(dataToken="mgrast secret-of-the-job")
    client = Client(runner, runner.take(1)[0])
    node, files = client.node(1), {"upload": ("out.txt", b"x")}
    assert NodeClient(runner.cloud, "mgrast another-token").error("PUT", f"/{node}", files)[0] == 401
    holder = NodeClient(runner.cloud, "mgrast secret-of-the-job")
    holder.data("PUT", f"/{node}", files)
    client.done()
    assert holder.download(node) == b"x"
    assert holder.error("PUT", f"/{node}", files)[0] == 409, "the task has ended"


def test_long_attributes_survive_the_report(runner: JobRunner) -> None:
    [client] = start(runner, ONE)
    text = "\u00e9" * 30_000
    files = {"upload": ("out.txt", b"x"), "attributes": ("a", f'{{"k": "{text}"}}'.encode())}
    client.nodes.data("PUT", f"/{client.node(1)}", files)
    [stored] = client.outputs().stored
    assert stored.attributes == {"k": text}


def test_the_nodes_of_a_deleted_job_are_not_found(runner: JobRunner) -> None:
    [client] = start(runner, ONE)
    client.nodes.data("PUT", f"/{client.node(1)}", {"upload": ("out.txt", b"x")})
    client.done()
    runner.run()
    admin = NodeClient(runner.cloud)
    assert admin.download(client.node(1)) == b"x"
    assert runner.cloud.http("DELETE", "/v1/jobs/orders/t1").status in (200, 202, 204)
    assert admin.error("GET", f"/{client.node(1)}?download")[0] == 404


def test_a_definition_does_not_name_nodes_that_its_author_may_not_read(
    runner: JobRunner, cloud: Cloud
) -> None:
    """Ids of jobs are no secret: a caller with define and submit could read outputs of any job by id."""
    [client] = start(runner, ONE)
    client.nodes.data("PUT", f"/{client.node(1)}", {"upload": ("out.txt", b"hidden")})
    client.done()
    assert OwnNodes(runner.mill, Actor("admin"), HOST, 1)(HOST, client.node(1))
    stored = NodeClient(cloud).upload(b"stored", "in.txt")["id"]
    scopes = ("read", "submit", "define")
    eve = Callers(cloud).with_scopes(*({"scope": scope, "definitions": ["spy*"]} for scope in scopes))
    bucket = cloud.bucket
    for number, node in enumerate((client.node(1), stored, str(JobNode("0" * 8 + stored[8:], 0, 0)))):
        listed = cloud.clients.s3.list_objects_v2(Bucket=bucket, Prefix=f"nodes/{node}/")
        [key] = [each["Key"] for each in listed.get("Contents", [])] or [f"nodes/{node}/joined"]
        literal = {"name": "in", "s3": {"bucket": bucket, "key": key}, "node": node}
        answer = eve("PUT", "/v1/definitions/spy", {"steps": [step("a", inputs=[{"name": "x"}, literal])]})
        faults = [(each["pointer"], each["code"]) for each in answer.json["faults"]]
        assert (answer.status, faults) == (422, [("/steps/0/inputs/1/s3", "unknown-node")])
        for at, (own_bucket, own_key) in enumerate(
            ((bucket, "{{ params.key }}"), ("{{ params.bucket }}", key))
        ):
            later = {"name": "in", "s3": {"bucket": own_bucket, "key": own_key}, "node": node}
            params, name = {"bucket": bucket, "key": key}, f"spy-{number}-{at}"
            document = {"params": params, "steps": [step("a", inputs=[later])]}
            assert eve("PUT", f"/v1/definitions/{name}", document).status == 201
            runner.submit("t1", name)
            [reader] = [Client(runner, lease) for lease in runner.take(1)]
            assert reader.nodes.error("GET", f"/{node}?download")[0] == 404
            FileWorker(runner).ask(reader.lease, 403, prepare=True)
            runner.worker.report([reader.lease])
        external = {
            "name": "in",
            "host": "https://shock.example",
            "node": node,
            "url": "https://shock.example/x",
        }
        runner.define(step("a", inputs=[external]), name="external")
        runner.submit(f"t{number}", "external")
        [reader] = [Client(runner, lease) for lease in runner.take(1)]
        assert reader.nodes.error("GET", f"/{node}?download")[0] == 404
        runner.worker.report([reader.lease])


def test_a_definition_keeps_the_nodes_that_it_has(runner: JobRunner, cloud: Cloud) -> None:
    stored = NodeClient(cloud).upload(b"stored", "in.txt")["id"]
    file = OwnNodes(runner.mill, Actor("admin"), HOST, 1)(HOST, stored)
    assert file is not None
    source = {"name": "in", "s3": {"bucket": cloud.bucket, "key": file.key}, "node": stored}
    runner.define(step("a", inputs=[source]), name="kept")
    eve = Callers(cloud).with_scopes({"scope": "define", "definitions": ["kept"]})
    document = {"description": "mine", "steps": [step("a", inputs=[source])]}
    assert eve("PUT", "/v1/definitions/kept", document).status == 200
