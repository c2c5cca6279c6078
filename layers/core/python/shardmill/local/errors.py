"""Why a laptop cloud does not run."""

from __future__ import annotations


class Refused(Exception):
    """`dev` cannot start here; the message says why and what to do."""


class CloudFailed(Exception):
    """The laptop cloud did not start, or ended by itself."""


class DeployFailed(CloudFailed):
    """The template could not be deployed."""
