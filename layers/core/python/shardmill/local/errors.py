"""Errors of the laptop cloud."""

from __future__ import annotations

CORRUPT_STATE_EXIT_CODE = 65
"""The exit code of an emulator that cannot read its state; the last line of its log has the reason."""


class Refused(Exception):
    """`dev` cannot start; the message says why and what to do."""


class CloudFailed(Exception):
    """The laptop cloud did not start, or exited unexpectedly."""


class DeployFailed(CloudFailed):
    """The template could not be deployed."""
