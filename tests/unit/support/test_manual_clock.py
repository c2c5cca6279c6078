"""Clocks that the test sets."""

from email.utils import parsedate_to_datetime

import boto3
import pytest
from moto import mock_aws

from support.scenarios.manual_clock import ManualClock, SkewedClock, queue_clock


@pytest.mark.parametrize("offset_ms", [3_000, -3_000])
def test_a_skewed_clock_keeps_its_distance(offset_ms: int) -> None:
    clock = ManualClock()
    skewed = SkewedClock(clock, offset_ms)
    clock.ms += 5_000
    assert skewed() - clock() == offset_ms
    skewed.offset_ms += 60_000
    assert skewed() - clock() == offset_ms + 60_000


def test_responses_have_the_date_of_the_clock() -> None:
    clock = ManualClock()
    with mock_aws(), queue_clock(clock):
        for service, operation in (("sqs", "list_queues"), ("dynamodb", "list_tables")):
            clock.ms += 86_400_000
            response = getattr(boto3.client(service), operation)()  # type: ignore[call-overload]
            date = parsedate_to_datetime(response["ResponseMetadata"]["HTTPHeaders"]["date"])
            assert date.timestamp() == clock() / 1000
