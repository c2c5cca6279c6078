"""Notifications: settings, their form in responses, and signatures of messages."""

import base64
import hashlib
import hmac
import json
import re
import time
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.model.cloudevent import cloudevent, encoded, signature, signed_headers
from shardmill.model.definition.validation import check_definition, public_document, stored_document
from shardmill.model.notify import occasions
from shardmill.model.secrets.secret import MASK
from shardmill.model.states import JobState, occasion_of
from support.paths import PROJECT

quick = settings(max_examples=60)
TOPIC = "arn:aws:sns:eu-west-1:123456789012:shardmill-ops"
HOOK = {"url": "https://example.com/hook", "secret": "s3cret"}
secrets = st.uuids().map(lambda each: f"secret {each}")
kinds = st.lists(
    st.sampled_from(["failure", "suspension", "lateness", "success"]), min_size=1, max_size=4, unique=True
)
receivers = st.one_of(
    st.fixed_dictionaries(
        {"webhook": st.fixed_dictionaries({"url": st.just(HOOK["url"]), "secret": secrets})}
    ),
    st.just({"sns": TOPIC}),
)
notices = st.lists(
    st.tuples(receivers, st.fixed_dictionaries({}, optional={"on": kinds})).map(
        lambda each: each[0] | each[1]
    ),
    max_size=10,
)


def define(notify: Any) -> dict[str, Any]:
    return {"jobName": "a", "steps": [{"stepName": "a"}], "notify": notify}


def faults(notify: Any) -> dict[str, str]:
    _, found = check_definition(define(notify))
    return {each.pointer: each.code for each in found}


@quick
@given(notices)
def test_responses_contain_everything_except_secrets(notify: list[dict[str, Any]]) -> None:
    checked, found = check_definition(define(notify))
    assert checked is not None, found
    stored, shown = stored_document(checked), public_document(checked)
    reread, _ = check_definition(stored)
    assert reread == checked
    assert stored.get("notify", []) == notify
    for notice in notify:
        if "webhook" in notice:
            assert notice["webhook"]["secret"] not in json.dumps(shown)
            assert notice["webhook"]["secret"] not in repr(checked)
    assert [notice.get("sns") for notice in shown.get("notify", [])] == [each.get("sns") for each in notify]


def test_a_masked_secret_is_rejected_and_a_reference_is_shown() -> None:
    checked, _ = check_definition(define([{"webhook": HOOK}, {"webhook": HOOK | {"secret": "ssm:/a/b"}}]))
    assert checked is not None
    shown = public_document(checked)["notify"]
    assert [each["webhook"]["secret"] for each in shown] == [MASK, "ssm:/a/b"]
    assert faults(shown) == {"/notify/0/webhook/secret": "masked-value"}


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "https://example.com:8443/a/b?c=d",
        "http://127.0.0.1:9/x",
        "http://localhost/x",
        "http://[::1]:80/",
        "https://10.0.0.1/",
    ],
)
def test_valid_webhook_urls_are_accepted(url: str) -> None:
    assert faults([{"webhook": HOOK | {"url": url}}]) == {}


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com",
        "http://127.0.0.1.example.com",
        "ftp://example.com",
        "example.com",
        "https://",
        "https://a b",
        "https://a:b@example.com",
        "https://example.com:99999",
        "https://[::1",
        "https://example.com/\n",
        "https://example.com/" + "a" * 2048,
        "",
        7,
    ],
)
def test_invalid_webhook_urls_are_rejected(url: Any) -> None:
    assert list(faults([{"webhook": HOOK | {"url": url}}])) == ["/notify/0/webhook/url"]


@pytest.mark.parametrize(
    ("notice", "where"),
    [
        ({}, "/notify/0"),
        ({"webhook": HOOK, "sns": TOPIC}, "/notify/0"),
        ({"webhook": {"url": "https://example.com"}}, "/notify/0/webhook/secret"),
        ({"webhook": HOOK | {"secret": ""}}, "/notify/0/webhook/secret"),
        ({"webhook": HOOK | {"secret": "ssm:"}}, "/notify/0/webhook/secret"),
        ({"webhook": HOOK | {"secret": "ssm:/a b"}}, "/notify/0/webhook/secret"),
        ({"webhook": HOOK | {"secret": "secretsmanager:a:b"}}, "/notify/0/webhook/secret"),
        ({"webhook": HOOK | {"secret": "whsec_!"}}, "/notify/0/webhook/secret"),
        ({"webhook": HOOK | {"retries": 3}}, "/notify/0/webhook/retries"),
        ({"sns": "ops"}, "/notify/0/sns"),
        ({"sns": f"{TOPIC}.fifo"}, "/notify/0/sns"),
        ({"sns": TOPIC, "on": []}, "/notify/0/on"),
        ({"sns": TOPIC, "on": ["failed"]}, "/notify/0/on/0"),
        ({"sns": TOPIC, "on": "failure"}, "/notify/0/on"),
    ],
)
def test_invalid_notices_are_rejected(notice: Any, where: str) -> None:
    assert list(faults([notice])) == [where]


def test_at_most_ten_receivers_are_accepted() -> None:
    assert faults([{"sns": TOPIC}] * 10) == {}
    assert list(faults([{"sns": TOPIC}] * 11)) == ["/notify"]


def test_the_default_occasions_are_failure_suspension_and_lateness() -> None:
    checked, _ = check_definition(define([{"sns": TOPIC}]))
    assert checked is not None
    assert occasions(checked.notify) == {"failure", "suspension", "lateness"}


def test_each_end_of_a_job_has_one_occasion() -> None:
    found = {
        state: occasion_of("Job Ended", state)
        for state in (JobState.SUCCESS, JobState.FAILED, JobState.KILLED)
    }
    assert list(found.values()) == ["success", "failure", "failure"]
    for state in JobState:
        assert occasion_of("Job Late", state) == "lateness"
        assert occasion_of("Step Ended", state) is None
    assert occasion_of("Job Suspended", JobState.SUSPENDED) == "suspension"


def test_the_signature_matches_the_specification() -> None:
    """The example of the Standard Webhooks reference libraries."""
    secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"test": 2432232314}'
    made = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@quick
@given(
    st.text(min_size=1).filter(lambda text: not text.startswith("whsec_")),
    st.text(),
    st.integers(0),
    st.binary(),
)
def test_any_string_can_be_a_secret(secret: str, message_id: str, timestamp: int, body: bytes) -> None:
    signed = f"{message_id}.{timestamp}.".encode() + body
    wanted = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
    assert signature(secret, message_id, timestamp, body) == "v1," + base64.b64encode(wanted).decode()


def test_a_cloudevent_has_the_documented_fields() -> None:
    detail = {
        "jobId": "x",
        "run": 2,
        "jobName": "a",
        "trigger": "t",
        "state": "FAILED",
        "time": "2026-01-01T00:00:00.500+00:00",
    }
    event = cloudevent("mill", "Job Ended", {**detail, "notify": True, "dependents": True})
    assert event == {
        "specversion": "1.0",
        "id": "x.2.ended.1767225600500",
        "source": "/shardmill/mill",
        "type": "io.shardmill.job.ended",
        "subject": "a/t",
        "time": "2026-01-01T00:00:00.500+00:00",
        "datacontenttype": "application/json",
        "data": detail,
    }
    assert json.loads(encoded(event)) == event


def test_the_documented_verification_accepts_only_valid_signatures() -> None:
    text = (PROJECT / "docs" / "notify.md").read_text()
    page: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], page)
    headers = signed_headers("s3cret", "m", int(time.time()), b"{}")
    assert page["is_valid"]("s3cret", headers, b"{}")
    assert not page["is_valid"]("s3cret", headers, b"{ }")
    assert not page["is_valid"]("other", headers, b"{}")
    assert not page["is_valid"]("s3cret", signed_headers("s3cret", "m", 1614265330, b"{}"), b"{}")


def test_the_documented_example_is_a_valid_definition() -> None:
    text = (PROJECT / "docs" / "notify.md").read_text()
    document = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0].replace("on:", "'on':"))
    checked, found = check_definition(document | {"steps": [{"stepName": "a"}]})
    assert checked is not None, found
    assert len(checked.notify) == 2
