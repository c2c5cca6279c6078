"""What the claims of a JWT grant."""

from typing import Any

import pytest

from shardmill.model.access.claims import grants_of, user_of
from shardmill.model.access.grants import Grant

LIMITED = {"scope": "submit", "definitions": ["report-*"], "groups": ["a"]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("openid shardmill:read email shardmill:submit", (Grant("read"), Grant("submit"))),
        (["shardmill:admin", "other"], (Grant("admin"),)),
        ([LIMITED], (Grant("submit", definitions=("report-*",), groups=("a",)),)),
        ("read submit", ()),
        ("shardmill:root shardmill: shardmill:READ", ()),
        (None, ()),
        (7, ()),
        ({"scope": "admin"}, ()),
        ([{"scope": "root"}, {"scope": "read", "tenants": ["x"]}, 5, None], ()),
        ([{"scope": "read", "definitions": []}, {"scope": "read", "groups": "a"}], ()),
        ([{"scope": "read", "definitions": [1]}, {"scope": "read", "definitions": None}], ()),
    ],
)
def test_grants_are_read_from_a_claim(value: Any, expected: tuple[Grant, ...]) -> None:
    assert grants_of({"scope": value}, "scope") == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("alice", "alice"),
        (" a@b.example ", "a@b.example"),
        ("Admin", None),
        ("shardmill", None),
        ("eventbridge", None),
    ]
    + [(bad, None) for bad in ("", " ", "a\nb", "x" * 65, 7, None, ["alice"])],
)
def test_the_user_is_read_from_a_claim(value: Any, expected: str | None) -> None:
    assert user_of({"sub": value}, "sub") == expected
