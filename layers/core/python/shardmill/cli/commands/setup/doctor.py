"""doctor: check the setup and suggest fixes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from shardmill.cli import output
from shardmill.cli.exits import OTHER
from shardmill.cli.options import Json, Token, Url

if TYPE_CHECKING:
    from shardmill.cli.checks import Finding

TIMEOUT_SECONDS = 15.0
_COLOURS = {"ok": 32, "warning": 33, "problem": 31, "skipped": 2}


def doctor(url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Check the setup and suggest fixes.

    Checks Python, the packages, the address and token, the API's version, the clock, worker groups without
    workers and, where the settings of a worker with --aws are present, whether it reaches DynamoDB and SQS.
    Exits with code 1 if it finds a problem; warnings do not change the exit code.

    \b
    Examples:
      shardmill doctor
      shardmill doctor --json | jq -r '.[] | select(.verdict == "problem") | .advice'
    """
    findings = _findings(url, token)
    if as_json:
        output.json_list(asdict(each) for each in findings)
    else:
        for each in findings:
            verdict = output.paint(f"{each.verdict:<8}", _COLOURS[each.verdict])
            output.line(f"{verdict} {each.check}: {output.cell(each.found)}")
            if each.advice and each.verdict in ("warning", "problem"):
                output.line(f"{'':<8} → {output.cell(each.advice)}")
        _summary(findings)
    if any(each.verdict == "problem" for each in findings):
        raise typer.Exit(OTHER)


def _findings(url: str | None, token: str | None) -> list[Finding]:
    from shardmill.cli import checks
    from shardmill.client.client import Client

    found = [*checks.machine_checks(), checks.address_check(url, token)]
    if found[-1].verdict == "ok":
        with Client(url, token, timeout=TIMEOUT_SECONDS) as client:
            found += checks.api_checks(client)
    return [*found, *checks.aws_checks()]


def _summary(findings: list[Finding]) -> None:
    numbers = {word: sum(each.verdict == word for each in findings) for word in ("problem", "warning")}
    if not any(numbers.values()):
        output.line("\nEverything is fine.")
    else:
        counted = " and ".join(output.plural(number, word) for word, number in numbers.items() if number)
        output.line(f"\n{counted} found.")
