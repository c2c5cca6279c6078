"""Notifications on the laptop cloud, from the real rule to a local webhook."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from support.fakes.webhook_receiver import receiver
from support.laptop import Laptop
from support.waits import run_until

pytestmark = pytest.mark.xdist_group("waiting")  # waits for ticks and heartbeats, uses little CPU


def test_a_webhook_is_retried_until_it_succeeds(laptop: Laptop) -> None:
    with receiver() as hook:
        hook.statuses = [503]
        notify = [{"on": ["success"], "webhook": {"url": hook.url, "secret": "webhook-secret"}}]
        definition = {"steps": [{"stepName": "a"}], "notify": notify}
        laptop.request("PUT", "/v1/definitions/noticed", definition).raise_for_status()
        laptop.request("POST", "/v1/jobs", {"jobName": "noticed", "trigger": "t"}).raise_for_status()
        run_until(lambda: len(hook.requests) >= 2, 60)
        first, second = hook.requests[:2]
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    assert second.event["subject"] == "noticed/t"
    signed = f"{second.headers['webhook-id']}.{second.headers['webhook-timestamp']}.".encode() + second.body
    expected = base64.b64encode(hmac.new(b"webhook-secret", signed, hashlib.sha256).digest()).decode()
    assert second.headers["webhook-signature"] == f"v1,{expected}"
