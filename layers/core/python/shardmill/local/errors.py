"""Why a laptop cloud does not run."""

from __future__ import annotations

SPOILT_CODE = 65
"""The exit code of an emulator that cannot read its state; the last line of its log says why."""


class Refused(Exception):
    """`dev` cannot start here; the message says why and what to do."""


class CloudFailed(Exception):
    """The laptop cloud did not start, or ended by itself."""


class DeployFailed(CloudFailed):
    """The template could not be deployed."""
