"""Show what a job costs on AWS, by service and operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardmill.cli import output

if TYPE_CHECKING:
    from shardmill.model.cost.estimate import Quota
    from shardmill.model.cost.prices import Cost


def show_cost(cost: Cost) -> None:
    output.line(
        f"Estimated cost on AWS: {usd_text(cost.usd)}, at most {usd_text(cost.usd_at_most)} "
        f"(list prices for {cost.region} as of {cost.prices_as_of}):"
    )
    output.table(
        ("SERVICE", "OPERATION", "NUMBER", "USD"),
        (
            (
                item.service,
                item.what.removeprefix(f"{item.service} "),
                count_text(item.count),
                f"{item.usd:.7f}",
            )
            for item in cost.items
        ),
    )
    output.line(
        "Not included: the workers' machines and their polling, reads over the API, logs, stored data."
    )


def show_quotas(quotas: list[Quota]) -> None:
    """Print the quotas, the one that is met first at the top."""
    first = quotas[0]
    output.line(f"\nThe first quota that it meets: {first.name}, {_reached(first)}.")
    output.table(
        ("QUOTA", "LIMIT", "A JOB USES", "REACHED AT"),
        (
            (
                quota.name,
                f"{quota.limit:,.0f}{'/s' if quota.per_second else ''}",
                count_text(quota.used),
                _reached_briefly(quota),
            )
            for quota in quotas
        ),
    )


def _reached(quota: Quota) -> str:
    if not quota.used:
        return "never"
    if quota.per_second:
        rate = quota.limit / quota.used
        if rate < 1:
            return f"one job takes {quota.share:,.0f} seconds or more"
        return f"{rate:,.0f} jobs per second" if rate >= 10 else f"{rate:.1f} jobs per second"
    return f"{quota.share:.1%} used by one job"


def _reached_briefly(quota: Quota) -> str:
    """The same, for a table that fits 80 columns."""
    if not quota.used:
        return "never"
    if not quota.per_second:
        return f"{quota.share:.1%} a job"
    rate = quota.limit / quota.used
    return f"{quota.share:,.0f} s a job" if rate < 1 else f"{rate:,.{0 if rate >= 10 else 1}f} jobs/s"


def usd_text(usd: float) -> str:
    return f"{usd:.6f} USD" if usd < 0.01 else f"{usd:,.4f} USD"


def count_text(count: float) -> str:
    return f"{count:,.0f}" if count >= 10 or count == int(count) else f"{count:.1f}"
