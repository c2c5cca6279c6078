"""The node store: nodes that submitters upload, whole and by part, with attributes and indexes."""

from __future__ import annotations

import hashlib
import json

import pytest

from shardmill.aws.settings import MAX_BODY_BYTES
from shardmill.engine.mill import mill
from shardmill.engine.nodes import stored_nodes
from shardmill.engine.nodes.callers import Caller
from shardmill.engine.nodes.errors import NodeImmutable
from shardmill.engine.nodes.inputs import OwnNodes
from shardmill.engine.nodes.uploads import NewFile
from shardmill.model.actor import Actor
from shardmill.model.awe.faults import DocumentFault
from shardmill.model.awe.nodes import NO_TIME
from support.aws_rules.faults import Faults
from support.moto.cloud import Cloud
from support.scenarios.access import Callers
from support.scenarios.awe.node_client import NodeClient
from support.scenarios.file_worker import place
from support.scenarios.races.interrupter import Interrupter, Interruption

LINES = b"".join(b"line %d\n" % number for number in range(1, 11))
FASTA = b"".join(b">r%d\nAC\nGT\n" % number for number in range(1, 5))
UNKNOWN_OUTPUT = "00000000-0000-4000-8000-000000000000_0_0"
HOST = "http://test.execute-api.us-east-1.amazonaws.com/awe"


@pytest.fixture
def nodes(cloud: Cloud) -> NodeClient:
    return NodeClient(cloud)


def test_a_node_keeps_its_file_and_attributes(nodes: NodeClient) -> None:
    made = nodes.upload(LINES, "in put.txt", sample="s1", reads=3)
    read = nodes.data("GET", f"/{made['id']}")
    assert read == made
    assert made["attributes"] == {"sample": "s1", "reads": 3}
    assert (made["file"]["name"], made["file"]["size"], made["type"]) == ("in put.txt", len(LINES), "basic")
    assert made["file"]["checksum"] == {
        "md5": hashlib.md5(LINES).hexdigest(),
        "sha256": hashlib.sha256(LINES).hexdigest(),
    }
    assert made["file"]["created_on"] > NO_TIME
    assert nodes.download(made["id"]) == LINES
    assert nodes.data("GET", f"/{made['id']}?download_url")["url"].startswith("http")


def test_the_node_store_is_also_at_the_root(nodes: NodeClient) -> None:
    """Newer clients replace the path of the host for attributes and indexes."""
    made = nodes.upload(LINES, quality=7)
    nodes.root = ""
    assert nodes.data("GET", f"/{made['id']}") == made
    assert nodes.data("PUT", f"/{made['id']}/index/line")["indexes"]["line"]["total_units"] == 10
    assert nodes.data("POST", "/")["file"]["size"] == 0
    assert nodes.download(made["id"]) == LINES
    assert nodes.error("GET", "/unknown")[0] == 404


@pytest.mark.parametrize("agent", ["Go-http-client/1.1", "Go 1.1 package http"])
def test_clients_that_follow_no_redirects_get_the_file_itself(nodes: NodeClient, agent: str) -> None:
    made = nodes.upload(LINES)["id"]
    empty = nodes.upload(b"")["id"]
    nodes.agent = agent
    for query, content in (("", LINES), ("&index=line&part=4-6", b"line 4\nline 5\nline 6\n")):
        answer = nodes.send("GET", f"/{made}?download{query}")
        assert (answer.status, answer.text.encode()) == (200, content)
        assert answer.headers["content-type"] == "application/octet-stream"
    assert nodes.send("GET", f"/{empty}?download").text == ""
    assert nodes.error("GET", f"/{made}?download&index=line&part=11")[0] == 400


def test_a_file_that_is_too_large_for_an_answer_is_always_a_redirect(nodes: NodeClient) -> None:
    content = b"x" * (MAX_BODY_BYTES + 1)
    made = nodes.data("POST", f"?upload_url&sha256={hashlib.sha256(content).hexdigest()}&size={len(content)}")
    upload = place(made["upload"]["url"])
    nodes.cloud.clients.s3.put_object(**upload, Body=content)
    nodes.agent = "Go-http-client/1.1"
    assert nodes.download(made["id"]) == content


def test_a_node_is_created_first_and_gets_its_file_later(nodes: NodeClient) -> None:
    made = nodes.data("POST", "")
    assert made["file"]["created_on"] == NO_TIME
    assert nodes.error("GET", f"/{made['id']}?download") == (409, "Node has no file")
    nodes.data("PUT", f"/{made['id']}", {"upload": ("a", b"content")}, attributes_str='{"k": "v"}')
    assert nodes.download(made["id"]) == b"content"
    assert nodes.data("GET", f"/{made['id']}/")["attributes"] == {"k": "v"}


def test_a_repeated_upload_changes_nothing_and_other_content_is_refused(nodes: NodeClient) -> None:
    made = nodes.upload(b"content")
    again = nodes.data("PUT", f"/{made['id']}", {"upload": ("a", b"content")})
    assert again["file"]["created_on"] == made["file"]["created_on"]
    status, text = nodes.error("PUT", f"/{made['id']}", {"upload": ("a", b"other")})
    assert status == 409
    assert "immutable" in text
    assert nodes.download(made["id"]) == b"content"


@pytest.mark.parametrize("call", [1, 2], ids=["before the object", "before the row"])
def test_one_of_two_concurrent_uploads_is_kept_as_a_whole(cloud: Cloud, faults: Faults, call: int) -> None:
    interrupter = Interrupter()
    faults.add_rule(interrupter.around)
    deployment, caller = mill(), Caller(Actor("ann"))
    row = stored_nodes.create(deployment, caller, "n1", 1)

    def rival() -> None:
        stored_nodes.upload(deployment, row, NewFile("b", b"the rival"), 2)

    def mine() -> None:
        stored_nodes.upload(deployment, row, NewFile("a", b"mine"), 3)

    with pytest.raises(NodeImmutable):
        interrupter.act(mine, Interruption("before", call, rival))
    kept = deployment.nodes.get("n1")
    assert kept is not None
    assert kept.sha256 == hashlib.sha256(b"the rival").hexdigest()
    found = deployment.files.read(stored_nodes.place(deployment, kept), 0, 100)
    assert (kept.file_name, kept.size, found) == ("b", 9, b"the rival")


def test_parts_become_the_file_in_the_order_of_their_numbers(nodes: NodeClient) -> None:
    made = nodes.data("POST", "", None, parts="3", file_name="whole.txt")
    assert made["parts"] == {"count": 3, "length": 0, "varlen": False, "parts": [], "compression": ""}
    for number in (3, 1):
        half = nodes.data("PUT", f"/{made['id']}", {str(number): ("p", b"part %d\n" % number)})
        assert half["file"]["size"] == 0
    assert half["parts"]["length"] == 2
    assert nodes.error("GET", f"/{made['id']}?download")[1] == "Node has no file"
    assert nodes.error("PUT", f"/{made['id']}", {"4": ("p", b"x")})[0] == 400
    whole = nodes.data("PUT", f"/{made['id']}", {"2": ("p", b"part 2\n")})
    assert (whole["file"]["name"], whole["file"]["size"]) == ("whole.txt", 21)
    assert nodes.download(made["id"]) == b"part 1\npart 2\npart 3\n"


@pytest.mark.parametrize(
    ("content", "index", "part", "expected", "units"),
    [
        (LINES, "line", "4-6", b"line 4\nline 5\nline 6\n", 10),
        (LINES, "line", "10", b"line 10\n", 10),
        (FASTA, "record", "2-3", b">r2\nAC\nGT\n>r3\nAC\nGT\n", 4),
        (FASTA, "chunkrecord", "1-1", FASTA, 1),
        (LINES, "size", "1-1", LINES, 1),
    ],
)
def test_an_index_gives_parts_of_the_file(
    nodes: NodeClient, content: bytes, index: str, part: str, expected: bytes, units: int
) -> None:
    made = nodes.upload(content)
    indexed = nodes.data("PUT", f"/{made['id']}/index/{index}", {})
    assert indexed["indexes"][index]["total_units"] == units
    assert nodes.data("PUT", f"/{made['id']}?index={index}")["indexes"] == indexed["indexes"]
    assert nodes.download(made["id"], f"&index={index}&part={part}") == expected
    assert nodes.download(made["id"], f"&index={index}&part={part}") == expected, "the copy is used again"


def test_parts_of_a_size_may_have_any_chunk_size(nodes: NodeClient) -> None:
    made = nodes.upload(LINES)
    assert nodes.download(made["id"], "&index=size&chunk_size=10&part=2-3") == LINES[10:30]
    assert nodes.download(made["id"], "&index=size&chunk_size=50&part=2") == LINES[50:]


@pytest.mark.parametrize(
    "query",
    [
        "&index=line&part=11",
        "&index=line&part=0-3",
        "&index=line&part=6-4",
        "&index=line&part=x",
        "&index=bogus&part=1",
        "&index=line",
        "&part=1",
        "&index=size&chunk_size=-3&part=1",
        "&index=size&chunk_size=10&part=99",
    ],
)
def test_a_part_that_does_not_exist_is_a_bad_request(nodes: NodeClient, query: str) -> None:
    made = nodes.upload(LINES)
    assert nodes.error("GET", f"/{made['id']}?download{query}")[0] == 400


def test_a_file_that_cannot_be_indexed_says_why(nodes: NodeClient) -> None:
    made = nodes.upload(b"\x1f\x8b compressed", "reads.gz")
    status, text = nodes.error("PUT", f"/{made['id']}/index/record")
    assert status == 409
    assert "cannot be indexed by record" in text


def test_a_large_body_is_refused_with_what_to_do_and_a_presigned_upload_works(
    cloud: Cloud, nodes: NodeClient
) -> None:
    content = b"x" * (MAX_BODY_BYTES + 1)
    status, text = nodes.error("POST", "", {"upload": ("big", content)})
    assert status == 413
    assert f"POST {HOST}/node?upload_url&sha256=HEX&size=BYTES" in text
    sha256 = hashlib.sha256(content).hexdigest()
    made = nodes.data("POST", f"?upload_url&sha256={sha256}&size={len(content)}&file_name=big.txt")
    assert made["file"]["created_on"] == NO_TIME
    assert nodes.error("GET", f"/{made['id']}?download")[1] == "Node has no file"
    assert made["upload"]["headers"]["x-amz-meta-sha256"] == sha256
    cloud.clients.s3.put_object(**place(made["upload"]["url"]), Body=content)
    read = nodes.data("GET", f"/{made['id']}")
    assert (read["file"]["name"], read["file"]["size"]) == ("big.txt", len(content))
    assert nodes.download(made["id"]) == content
    assert nodes.error("POST", "?upload_url")[0] == 400


def test_parts_can_be_uploaded_by_presigned_addresses(cloud: Cloud, nodes: NodeClient) -> None:
    made = nodes.data("POST", "", None, parts="2")
    digest = hashlib.sha256(b"one").hexdigest()
    answer = nodes.data("PUT", f"/{made['id']}?upload_url&part=1&sha256={digest}&size=3")
    cloud.clients.s3.put_object(**place(answer["upload"]["url"]), Body=b"one")
    nodes.data("PUT", f"/{made['id']}", {"2": ("p", b"two")})
    assert nodes.download(made["id"]) == b"onetwo"


def test_nodes_are_private_to_their_owner(cloud: Cloud, nodes: NodeClient) -> None:
    callers = Callers(cloud)
    ann = NodeClient(cloud, f"mgrast {callers.with_scopes('submit', owner='ann').token}")
    bob = NodeClient(cloud, f"OAuth {callers.with_scopes('submit', owner='bob').token}")
    made = ann.upload(b"private")
    assert ann.download(made["id"]) == b"private"
    assert nodes.download(made["id"]) == b"private", "the admin"
    for method, path in [("GET", ""), ("GET", "?download"), ("PUT", "?index=line"), ("DELETE", "")]:
        assert bob.error(method, f"/{made['id']}{path}") == (404, f"Node not found: '{made['id']}'")
    assert bob.error("PUT", f"/{made['id']}", {"upload": ("a", b"x")})[0] == 404
    for authorization in (None, "OAuth wrong", "OAuth smw_abc.def", "Bearer", "Basic YTpi"):
        anonymous = NodeClient(cloud, authorization)
        assert anonymous.error("GET", f"/{made['id']}?download")[0] == 401
        assert anonymous.error("POST", "", {"upload": ("a", b"x")})[0] == 401
        answers = {anonymous.error("GET", f"/{node}") for node in (made["id"], "none", UNKNOWN_OUTPUT)}
        assert [status for status, _ in answers] == [401], "also for nodes that do not exist"
    reader = NodeClient(cloud, f"Bearer {callers.with_scopes('read').token}")
    assert reader.error("POST", "", {"upload": ("a", b"x")})[0] == 401, "it may read, but not store"
    assert reader.download(made["id"]) == b"private"


def test_a_node_is_deleted_with_its_file(cloud: Cloud, nodes: NodeClient) -> None:
    made = nodes.upload(b"content")
    assert nodes.data("DELETE", f"/{made['id']}") == "node deleted"
    assert nodes.error("GET", f"/{made['id']}")[0] == 404
    listed = cloud.clients.s3.list_objects_v2(Bucket=cloud.bucket, Prefix=f"nodes/{made['id']}/")
    assert listed["KeyCount"] == 0


def test_document_inputs_are_looked_up_once_and_only_for_callers_who_may_read_them(
    cloud: Cloud, nodes: NodeClient
) -> None:
    made, empty = nodes.upload(b"content"), nodes.data("POST", "")
    own = OwnNodes(mill(), Actor("admin"), HOST, 1)
    file = own("http://test.execute-api.us-east-1.amazonaws.com/awe/", made["id"])
    assert file is not None
    assert file.size == len(b"content")
    assert own("", made["id"]) == file
    assert own("http://test.execute-api.us-east-1.amazonaws.com:80", made["id"]) == file, "also at the root"
    assert cloud.clients.s3.get_object(Bucket=cloud.bucket, Key=file.key)["Body"].read() == b"content"
    assert own("http://shock.example.org", made["id"]) is None
    with pytest.raises(DocumentFault, match="has no file yet"):
        own(HOST, empty["id"])
    with pytest.raises(DocumentFault, match="there is no node 'missing'"):
        own(HOST, "missing")
    other_user = OwnNodes(mill(), Actor("eve", ()), HOST, 1)
    with pytest.raises(DocumentFault, match="that you may read"):
        other_user(HOST, made["id"])


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"\xff\xfe no form", "application/octet-stream"),
        (b"--b\r\n", "multipart/form-data; boundary=b"),
        (b"--b\r\nContent-Disposition: form-data; name=upload\r\n\r\nx", "multipart/form-data; boundary=b"),
        (b"{}", "application/json"),
        (b"--b--", "multipart/form-data"),
        (b"\r\n--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--", "multipart/form-data; boundary=b"),
    ],
)
def test_hostile_bodies_are_bad_requests(cloud: Cloud, body: bytes, kind: str) -> None:
    headers = {"Content-Type": kind, "Authorization": f"OAuth {cloud.token}"}
    for method, path in [("POST", "/awe/node"), ("PUT", "/awe/node/n1")]:
        answer = cloud.http(method, path, body, token=None, headers=headers)
        assert answer.status == 400, answer


@pytest.mark.parametrize(
    "fields",
    [
        {"attributes_str": "{"},
        {"attributes_str": "[1]"},
        {"parts": "many"},
        {"parts": "0"},
        {"copy_data": "n"},
    ],
)
def test_hostile_fields_are_bad_requests(nodes: NodeClient, fields: dict[str, str]) -> None:
    assert nodes.error("POST", "", None, **fields)[0] == 400


def test_attributes_have_a_limit(nodes: NodeClient) -> None:
    assert nodes.error("POST", "", None, attributes_str=json.dumps({"k": "v" * 70_000}))[0] == 413
