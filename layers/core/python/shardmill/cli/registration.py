"""The options of `shardmill worker` that describe the worker and its machine at registration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

Domain = Annotated[
    str | None,
    typer.Option(
        "--domain", metavar="TEXT", show_default=False, help="Domain to register with. On EC2: the region."
    ),
]
Ip = Annotated[
    str | None,
    typer.Option(
        "--ip", metavar="ADDRESS", show_default=False, help="Address to register with. Default: its own."
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="N",
        min=0,
        max=65_535,
        show_default=False,
        help="Port to register with. Default: the port of --metrics-port.",
    ),
]
InstanceId = Annotated[
    str | None,
    typer.Option("--instance-id", metavar="ID", show_default=False, help="Instance ID. Found on EC2."),
]
InstanceType = Annotated[
    str | None,
    typer.Option("--instance-type", metavar="TYPE", show_default=False, help="Instance type. Found on EC2."),
]
Proxy = Annotated[
    bool, typer.Option("--proxy", help="Register as a proxy, which runs tasks on other machines.")
]
Subclients = Annotated[
    int | None,
    typer.Option(
        "--subclients",
        metavar="N",
        min=0,
        max=100_000,
        show_default=False,
        help="Number of subclients of a proxy; implies --proxy.",
    ),
]


def check_registration(name: str, groups: list[str], apps: list[str], about: Mapping[str, Any]) -> None:
    """Raise typer.BadParameter if a worker cannot register with these values."""
    from pydantic import ValidationError

    from shardmill.model.worker import Registration

    try:
        Registration(name=name, groups=groups, apps=apps, **about)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = str(first["loc"][0])
        options = {"groups": "--group", "apps": "--app"}
        option = options.get(field, f"--{field.replace('_', '-')}")
        raise typer.BadParameter(first["msg"], param_hint=option) from None
