"""Names and ids of the AWE protocol."""

import base64

from shardmill.model.awe.names import (
    JobNode,
    address_name,
    decode_id,
    parse_job_node,
    parse_work_id,
    plain_name,
    step_name,
    task_name,
    work_id,
)

JOB = "99abf2eb-380f-47ec-8d43-11be265b4594"


def test_names_of_tasks_become_names_of_steps_and_back() -> None:
    assert step_name("0") == "task_0"
    assert task_name("task_0") == "0"
    assert step_name("align") == task_name("align") == "align"
    assert plain_name("1.5 GB") == "_1-5-GB"


def test_ids_of_workunits_count_splits_from_one() -> None:
    assert work_id(JOB, "2", 0, 1) == f"{JOB}_2_0"
    assert work_id(JOB, "align_x", 3, 4) == f"{JOB}_align_x_4"
    parsed = parse_work_id(f"{JOB}_align_x_4")
    assert parsed is not None
    assert (parsed.task, parsed.engine_rank) == ("align_x", 3)
    assert parse_work_id("x") is None
    assert parse_work_id(f"{JOB}_0_{'9' * 100}") is None


def test_names_in_addresses_are_the_ids_of_the_document_if_they_can_be() -> None:
    assert address_name("a.b", "a-b") == "a.b"
    assert address_name("\u00fc", "_-") == "\u00fc"
    for given in ("a/b", "a b", "a?b", "a#b", "a%b", "a,b", "a\n", "x" * 151, "\u00fc" * 80):
        assert address_name(given, "task_7") == "7"
        assert address_name(given, "a-b") == "a-b"


def test_ids_in_base64() -> None:
    text = f"{JOB}_0_0"
    assert decode_id("base64:" + base64.b64encode(text.encode()).decode()) == text
    assert decode_id("base64:" + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")) == text
    assert decode_id(text) == text
    assert decode_id("base64:%%%") == "base64:%%%"
    assert decode_id("base64:/w==") == "base64:/w=="


def test_node_ids_of_outputs_are_parsed() -> None:
    assert parse_job_node(f"{JOB}_1_2") == JobNode(JOB, 1, 2)
    assert str(JobNode(JOB, 1, 2)) == f"{JOB}_1_2"
    assert parse_job_node(JOB) is None
