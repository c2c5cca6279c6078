"""AWE documents become definitions that the engine accepts, or errors that name what is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from shardmill.model.awe.document import MAX_DOCUMENT_BYTES, parse_document, translate
from shardmill.model.awe.faults import DocumentFault
from shardmill.model.awe.files import MAX_FILES, OwnFile, own_base
from shardmill.model.awe.translation import StoreOf
from shardmill.model.definition.validation import check_definition

SAMPLES = Path(__file__).parents[3] / "data" / "awe"
FILLED = {
    "jobname": "run1",
    "project": "p",
    "user": "u",
    "clientgroups": "a,b",
    "inputfile": "reads.fna",
    "shockurl": "mill.example/awe",
    "shocknode": "0d3e3406-36ea-4ae7-b943-279afb51c7d7",
    "totalwork": "4",
}


def _own(host: str, node: str) -> OwnFile | None:
    return OwnFile(f"nodes/{node}/file", 7) if own_base(host) == "mill.example/awe" else None


STORE = StoreOf("https://mill.example/awe", "bucket", _own)


def filled(name: str) -> str:
    text = (SAMPLES / name).read_text()
    for placeholder, value in FILLED.items():
        text = text.replace(f"#{placeholder}", value)
    return text


def step(name: str = "0", **more: Any) -> dict[str, Any]:
    return {"taskid": name, "cmd": {"name": "true"}, **more}


def translated(*tasks: dict[str, Any], **info: Any) -> dict[str, Any]:
    return translate({"info": info, "tasks": list(tasks)}, STORE).define


def faults(*tasks: dict[str, Any], **info: Any) -> str:
    with pytest.raises(DocumentFault) as caught:
        translated(*tasks, **info)
    return "\n".join(caught.value.texts)


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.iterdir()))
def test_every_sample_becomes_a_valid_definition(name: str) -> None:
    define = translate(parse_document(filled(name).encode()), STORE).define
    checked, wrong = check_definition(define)
    assert wrong == []
    assert checked is not None
    assert checked.on_failure == "suspend"
    assert all(each.command for each in checked.steps)


def test_list_and_map_style_files_are_the_same() -> None:
    as_map = {"x.txt": {"url": "http://data.example/x"}}
    as_list = [{"filename": "x.txt", "url": "http://data.example/x"}]
    assert translated(step(inputs=as_map)) == translated(step(inputs=as_list))


def test_a_task_depends_on_dependson_and_on_the_origins_of_its_inputs() -> None:
    made = translated(
        step("0", outputs={"a": {}}),
        step("1"),
        step("2", dependsOn=["1"], inputs={"a": {"origin": "0"}}),
    )
    assert made["steps"][2]["dependentSteps"] == ["task_1", "task_0"]
    assert made["steps"][2]["inputs"] == [{"name": "a", "origin": "task_0", "pattern": "a"}]


def test_an_input_without_a_source_comes_from_the_task_that_it_depends_on() -> None:
    made = translated(step("0", outputs={"a": {}}), step("1", dependsOn=["0"], inputs={"a": {}}))
    assert made["steps"][1]["inputs"][0]["origin"] == "task_0"


def test_files_of_this_node_store_are_objects_and_others_are_urls() -> None:
    node = {"host": "https://mill.example/awe/", "node": "n1"}
    other = {"host": "http://shock.example", "node": "n2"}
    plain = {"url": "http://data.example/x", "node": "-"}
    made = translated(step(inputs={"a": node, "b": other, "c": plain}))["steps"][0]["inputs"]
    assert made[0]["s3"] == {"bucket": "bucket", "key": "nodes/n1/file"}
    assert made[0]["size"] == 7, "a client must have room for it"
    assert made[1]["url"] == "http://shock.example/node/n2?download"
    assert made[2]["url"] == "http://data.example/x"


def test_splits_need_an_input_of_this_store_and_keep_their_limits() -> None:
    node = {"host": "https://mill.example/awe", "node": "n1"}
    split = step(inputs={"a": node}, totalwork=4, maxworksize=5, partinfo={"input": "a", "index": "line"})
    made = translated(split)["steps"][0]
    assert made["sharding"] == 4
    assert made["partition"] == {"input": "a", "index": "line", "byUnits": True, "maxUnits": 5}
    foreign = step(inputs={"a": {"host": "http://shock.example", "node": "n1"}}, totalwork=4)
    assert "upload it to https://mill.example/awe/node first" in faults(foreign)


def test_the_limit_and_the_options_of_partinfo_are_translated() -> None:
    node = {"host": "http://mill.example:80/awe", "node": "n1"}
    limited = step(inputs={"a": node}, partinfo={"input": "a", "maxpartsize_mb": 3})
    assert translated(limited)["steps"][0]["partition"] == {
        "input": "a",
        "index": "record",
        "byUnits": True,
        "unitMb": 1,
        "maxUnits": 3,
    }
    both = step(inputs={"a": node}, partinfo={"input": "a", "maxpartsize_mb": 3}, maxworksize=2)
    assert translated(both)["steps"][0]["partition"]["maxUnits"] == 2
    records = {"input": "a", "index": "record", "options": "separator=//"}
    made = translated(step(inputs={"a": node}, partinfo=records, totalwork=2))["steps"][0]
    assert made["partition"]["options"] == "separator=//"
    assert check_definition(translated(limited, both | {"taskid": "1"}))[1] == []


def test_outputs_that_are_stored_under_one_name_are_rejected() -> None:
    text = faults(step(outputs={"a": {"shockfilename": "s"}, "b": {"shockfilename": "s"}}))
    assert "tasks[0].outputs.b: is stored as 's', as 'a' is; change its shockfilename" in text
    assert "is stored as 'b'" in faults(
        step(outputs=[{"filename": "a", "shockfilename": "b"}, {"name": "b"}])
    )


def test_a_document_that_a_server_answered_refers_to_its_own_tasks() -> None:
    job = "c779a7f7-953d-4079-8388-591ee2065bad"
    made = translated(
        step("0", outputs={"a": {}}),
        step("1", dependsOn=[f"{job}_0"], inputs={"a": {"origin": f"{job}_0"}}),
    )
    assert made["steps"][1]["dependentSteps"] == ["task_0"]
    assert f"there is no task '{job}_7'" in faults(step("0", dependsOn=[f"{job}_7"]))


def test_a_name_that_an_object_has_twice_is_rejected() -> None:
    with pytest.raises(DocumentFault, match="has the name 'out' twice"):
        parse_document(b'{"tasks": [{"outputs": {"out": {"nonzero": true}, "out": {}}}]}')


def test_a_task_that_is_not_split_by_an_input_is_one_workunit() -> None:
    files = {"a": {"url": "http://data.example/a"}, "b": {"url": "http://data.example/b"}}
    assert translated(step(totalwork=4))["steps"][0]["sharding"] == 1
    assert translated(step(totalwork=4, inputs=files))["steps"][0]["sharding"] == 1


def test_the_input_of_a_skipped_task_takes_the_place_of_its_output() -> None:
    given = {"a": {"url": "http://data.example/a"}}
    made = translated(
        step("0", inputs=given, outputs={"b": {}}, skip=1),
        step("1", inputs={"b": {"origin": "0"}}, outputs={"c": {}}, skip=1),
        step("2", inputs={"c": {"origin": "1"}}),
    )["steps"]
    assert [each.get("when") for each in made] == ["{{ 1 == 2 }}", "{{ 1 == 2 }}", None]
    assert made[2]["inputs"] == [{"name": "c", "url": "http://data.example/a"}]
    assert check_definition(translated(step("0", skip=1)))[1] == []


def test_the_output_of_an_earlier_task_passes_through_a_skipped_one() -> None:
    made = translated(
        step("0", outputs={"a": {"shockfilename": "stored-a"}}),
        step("1", inputs={"a": {"origin": "0"}}, outputs={"b": {}}, skip=1),
        step("2", dependsOn=["1"], inputs={"b": {"origin": "1"}}),
    )
    assert made["steps"][2]["inputs"] == [{"name": "b", "origin": "task_0", "pattern": "stored-a"}]
    assert check_definition(made)[1] == []


def test_commands_keep_their_environment_image_and_arguments() -> None:
    command = {
        "name": "run.sh",
        "args": "-i @x.txt ${HOME} '{{literal}}' mail@example.org",
        "dockerPull": "ubuntu:latest",
        "environ": {"public": {"A": "1"}, "private": {"KEY": "s3cret"}},
    }
    made = translated({"cmd": command, "inputs": {"x.txt": {"url": "http://data.example/x"}}})
    checked, wrong = check_definition(made)
    assert wrong == []
    assert checked is not None
    assert checked.steps[0].command is not None
    assert checked.steps[0].command.has_private_env
    assert checked.steps[0].command.dockerimage == "ubuntu:latest"


def test_groups_priority_and_names_are_translated() -> None:
    made = translated(step("align reads"), clientgroups="big.mem, docker", priority="7", pipeline="mg rast")
    assert made["workerGroups"] == ["big-mem", "docker"]
    assert made["priority"] == 7
    assert made["jobName"] == "awe-mg-rast"
    assert made["steps"][0]["stepName"] == "align-reads"
    assert translated(step())["workerGroups"] == ["default"]


@pytest.mark.parametrize("name", ["simple_example.template", "mgrast-short.template"])
def test_placeholders_left_in_a_template_are_named(name: str) -> None:
    with pytest.raises(DocumentFault) as caught:
        parse_document((SAMPLES / name).read_bytes())
    for placeholder in ("jobname", "inputfile", "shockurl"):
        assert f"#{placeholder}" in str(caught.value)


def test_one_placeholder_left_in_a_number_is_named() -> None:
    with pytest.raises(DocumentFault, match=r"not filled in: #width$"):
        parse_document(b'{"tasks": [{"cmd": {"name": "x"}, "totalwork": #width}]}')


COMMANDS = (
    {"args": "-t #threshold"},
    {"args": "-t=#threshold -o out"},
    {"args": "-i @#threshold.fna"},
    {"args": "-i x", "environ": {"public": {"T": "#threshold"}}},
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_placeholder_that_is_used_in_one_command_only_is_named(command: dict[str, Any]) -> None:
    document = {"tasks": [{"cmd": {"name": "x", **command}}]}
    with pytest.raises(DocumentFault, match=r"not filled in: #threshold$"):
        parse_document(json.dumps(document).encode())


def test_a_hash_in_free_text_is_no_placeholder() -> None:
    command = {
        "name": "x",
        "args": "--colour=#fff -c #00ff7f # note '#CHROM' \"#FORMAT\" a#b $#",
        "description": "see #twelve",
        "environ": {"public": {"COLOUR": "#abc", "T": "see #twelve"}, "private": {"KEY": "#secret"}},
    }
    document = {"tasks": [{"cmd": command}], "info": {"userattr": {"note": "see #twelve"}}}
    assert parse_document(json.dumps(document).encode()) == document


def test_a_private_environment_too_large_for_a_header_is_rejected() -> None:
    command = {"name": "x", "environ": {"private": {"KEY": "\u00e9" * 1_300}}}
    assert translated(step(cmd=command))["steps"][0]["command"]["environ"]["private"]
    command = {"name": "x", "environ": {"private": {"KEY": "\u00e9" * 1_400}}}
    text = faults(step(cmd=command))
    assert "tasks[0].cmd.environ.private: has more than 8000 bytes" in text


@pytest.mark.parametrize("kind", ["inputs", "outputs", "predata"])
def test_more_files_than_a_workunit_can_name_are_rejected(kind: str) -> None:
    files = [{"filename": f"f{at}", "url": "http://data.example/x"} for at in range(MAX_FILES + 1)]
    assert f"tasks[0].{kind}: has 2001 files; the limit is 2000" in faults(step(**{kind: files}))


def test_an_origin_that_does_not_produce_the_input_is_rejected() -> None:
    text = faults(step("0", outputs={"a": {}}), step("1", inputs={"b": {"origin": "0"}}))
    assert "tasks[1].inputs.b: task '0', its origin, does not produce 'b'; its outputs: 'a'" in text


def test_cycles_unknown_tasks_and_duplicate_ids_are_rejected() -> None:
    assert "cycle: 0 -> 1 -> 0" in faults(step("0", dependsOn=["1"]), step("1", dependsOn=["0"]))
    assert "tasks[0].dependsOn: there is no task '9'" in faults(step("0", dependsOn=["9"]))
    assert "inputs.a.origin: there is no task '9'" in faults(step("0", inputs={"a": {"origin": "9"}}))
    assert "tasks[1].taskid: the id '0' is used twice" in faults(step("0"), step("0"))
    names = [each["stepName"] for each in translated(step("a.b"), step("a b"), step("a-b"))["steps"]]
    assert names == ["a-b-2", "a-b-3", "a-b"]


def test_oversized_and_malformed_documents_are_rejected() -> None:
    for body, text in (
        (b" " * (MAX_DOCUMENT_BYTES + 1), f"limit is {MAX_DOCUMENT_BYTES}"),
        (b"{", "not valid JSON"),
        (b"[]", "must be an object"),
        (b"[" * 100_000, "nested too deeply"),
    ):
        with pytest.raises(DocumentFault, match=text):
            parse_document(body)
    with pytest.raises(DocumentFault, match="CWL"):
        translate({"cwlVersion": "v1.0"}, STORE)


@pytest.mark.parametrize(
    "task",
    [
        {},
        {"cmd": []},
        {"cmd": {"name": {}}},
        {"cmd": {"name": "x", "environ": 1}},
        {"cmd": {"name": "x"}, "inputs": 1},
        {"cmd": {"name": "x"}, "inputs": [1]},
        {"cmd": {"name": "x"}, "inputs": {"../x": {"url": "http://data.example/x"}}},
        {"cmd": {"name": "x"}, "inputs": {"x": {"host": 1, "node": []}}},
        {"cmd": {"name": "x"}, "totalwork": "many"},
        {"cmd": {"name": "x"}, "totalwork": 10**9},
        {"cmd": {"name": "x"}, "dependsOn": "0"},
        {"cmd": {"name": "x"}, "partinfo": [], "skip": {}},
        {"cmd": {"name": "x"}, "taskid": []},
    ],
)
def test_values_of_other_types_are_faults(task: Any) -> None:
    assert "tasks[0]" in faults(task)
    assert "tasks" in faults(*[task] * 2)
