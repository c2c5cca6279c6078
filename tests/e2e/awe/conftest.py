"""A submitter and clients of both generations, which share one laptop cloud."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.awe.client import AweClient
from support.awe.documents import MakeClient
from support.awe.submitter import Submitter, write_programs
from support.laptop import Laptop


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_programs(tmp_path_factory.mktemp("programs"))


@pytest.fixture
def submitter(laptop: Laptop) -> Submitter:
    return Submitter(f"{laptop.url.rstrip('/')}/awe", laptop.token)


@pytest.fixture
def make_client(laptop: Laptop, programs: Path, tmp_path: Path) -> MakeClient:
    """Makes a registered client of a group, with the token of that group."""
    made: list[AweClient] = []

    def make(kind: type[AweClient], group: str, **more: Any) -> AweClient:
        scopes = [{"scope": "worker", "groups": [group]}]
        token = laptop.request("POST", "/v1/tokens", {"name": f"group-{group}", "scopes": scopes}).json()
        number = len(made)
        client = kind(
            url=f"{laptop.url.rstrip('/')}/awe",
            token=token["token"],
            group=group,
            folder=tmp_path / f"client{number}",
            programs=programs,
            name=f"{group}-{number}",
            **more,
        )
        client.register()
        made.append(client)
        return client

    return make
