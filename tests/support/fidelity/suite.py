"""The tests whose DynamoDB requests `make fidelity` judges: together they send nearly every kind."""

TESTS = frozenset(
    {
        "integration/access/test_tokens.py",
        "integration/api/test_lists.py",
        "integration/control/test_changes.py",
        "integration/control/test_control.py",
        "integration/control/test_force.py",
        "integration/control/test_long_control.py",
        "integration/control/test_rerun.py",
        "integration/control/test_suspensions.py",
        "integration/dependencies/test_children.py",
        "integration/dependencies/test_dependencies.py",
        "integration/deployment/test_upgrade.py",
        "integration/running/test_repair.py",
        "integration/scale/test_large_jobs.py",
        "integration/scale/test_task_partitions.py",
        "integration/schedules/test_backfills.py",
        "integration/schedules/test_schedules.py",
        "integration/tasks/test_attempts.py",
        "integration/tasks/test_bounces.py",
        "integration/tasks/test_checkpoints.py",
        "integration/tasks/test_dead_letters.py",
        "integration/tasks/test_delivery.py",
        "integration/tasks/test_live_logs.py",
        "integration/tasks/test_reports.py",
        "property/test_lease_model.py",
    }
)
"""Paths below tests/. They have the marker `fidelity`.

Tests that clear the table without a request, as those with a RaceEnvironment do, cannot be replayed.
"""
