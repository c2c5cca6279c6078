"""The check of signatures accepts the examples of AWS's documentation, and nothing that differs from them."""

from datetime import UTC, datetime, timedelta

import pytest

from support.aws_rules.signatures import fault

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
PRESIGNED = (
    "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
    "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
    "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
    "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
)
AT = datetime(2013, 5, 24, tzinfo=UTC)
LIST_USERS = "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08"
OTHER_SECRET = SECRET.replace("MDENG/", "MDENG+")
HEADERS = {
    "Content-Type": "application/x-www-form-urlencoded; charset=utf-8",
    "X-Amz-Date": "20150830T123600Z",
    "Authorization": (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, "
        "SignedHeaders=content-type;host;x-amz-date, "
        "Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    ),
}


def test_the_presigned_example_of_s3_is_valid_for_a_day() -> None:
    assert fault("GET", PRESIGNED, SECRET, AT + timedelta(hours=23)) == ""
    assert fault("GET", PRESIGNED, SECRET, AT + timedelta(seconds=86_401)) == "RequestExpired"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("test.txt", "other.txt"),
        ("examplebucket", "otherbucket"),
        ("Expires=86400", "Expires=86401"),
        ("20130524T000000Z", "20130524T000001Z"),
        ("SignedHeaders=host", "SignedHeaders=date"),
        ("&X-Amz-Expires", "&versionId=1&X-Amz-Expires"),
    ],
)
def test_a_changed_address_is_not_valid(old: str, new: str) -> None:
    assert fault("GET", PRESIGNED.replace(old, new), SECRET, AT) == "SignatureDoesNotMatch"


def test_another_method_or_secret_is_not_valid() -> None:
    assert fault("PUT", PRESIGNED, SECRET, AT) == "SignatureDoesNotMatch"
    assert fault("GET", PRESIGNED, OTHER_SECRET, AT) == "SignatureDoesNotMatch"
    forever = PRESIGNED.replace("86400", "604801")
    assert fault("GET", forever, SECRET, AT) == "AuthorizationQueryParametersError"


def test_the_example_of_signed_headers_is_valid_for_its_content() -> None:
    now = datetime(2015, 8, 30, 12, 40, tzinfo=UTC)
    assert fault("GET", LIST_USERS, OTHER_SECRET, now, HEADERS) == ""
    assert fault("GET", LIST_USERS, OTHER_SECRET, now, HEADERS, b"x") == "SignatureDoesNotMatch"
    assert fault("GET", LIST_USERS + "&a=b", OTHER_SECRET, now, HEADERS) == "SignatureDoesNotMatch"
    assert fault("GET", LIST_USERS, OTHER_SECRET, now + timedelta(hours=1), HEADERS) == "RequestExpired"
    assert fault("GET", LIST_USERS, OTHER_SECRET, now) == "MissingAuthenticationToken"
