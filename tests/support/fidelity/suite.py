"""The tests whose DynamoDB requests `make fidelity` judges: together they send nearly every kind."""

TESTS = frozenset(
    {
        "integration/access/test_tokens.py",
        *(
            f"integration/test_{subject}.py"
            for subject in (
                "attempts",
                "backfills",
                "bounces",
                "changes",
                "checkpoints",
                "children",
                "control",
                "dead_letters",
                "delivery",
                "dependencies",
                "force",
                "large_jobs",
                "lists",
                "live_logs",
                "long_control",
                "repair",
                "reports",
                "rerun",
                "schedules",
                "suspensions",
                "task_partitions",
                "upgrade",
            )
        ),
        "property/test_lease_model.py",
    }
)
"""Paths below tests/. They have the marker `fidelity`.

Tests that clear the table without a request, as those with a RaceEnvironment do, cannot be replayed.
"""
