"""The base class of errors that may be retried.

    Exception
    └── Transient                 retry with backoff; nothing was changed, or repeating the change is harmless
        ├── store.table
        │   ├── Contended         other writers kept changing the same items
        │   └── Throttled         DynamoDB left part of a batch unprocessed
        ├── store.shards
        │   └── BlockChanged      a shard of a block no longer has the value that was read
        ├── aws.queues
        │   └── SendRefused       SQS rejected part of a batch
        ├── aws.files
        │   └── ObjectsKept       S3 did not delete some objects
        ├── aws.bus
        │   └── EventRefused      EventBridge rejected an event
        ├── engine.access.issuer
        │   └── IssuerUnavailable the OIDC issuer did not answer, or not with valid documents
        ├── engine.errors
        │   └── Busy              (also a MillError) a use case lost too many conditional writes in a row
        └── engine.running.close_step
            └── StillOpen         a step still has open tasks; Step Functions retries

HTTP answers 503 with `Retry-After`, a worker retries the call, and Step Functions, SQS and the tick invoke
the function again.
"""

from __future__ import annotations


class Transient(Exception):
    """The operation failed for now; retry it."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or type(self).__doc__)
