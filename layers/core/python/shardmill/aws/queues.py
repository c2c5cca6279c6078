"""SQS: the queues (lanes) of worker groups. A message only triggers work; the table holds the state."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_args

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws.observability import logger
from shardmill.model.errors import Transient
from shardmill.model.groups.lanes import BANDS, MAX_LANES

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

BATCH = 10
MAX_HIDE_SECONDS = 43_000  # SQS allows 12 h, counted from when the message was received
MAX_DELAY_SECONDS = 900
MAX_PREFIX = 57  # of the 80 characters of a queue name; fits a stack name of 46 and the id of its API
RETENTION_SECONDS = 14 * 86400
_SEND_TRIES = 5
_Count = Literal[
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
]
_COUNTS: Sequence[_Count] = get_args(_Count)
_RECEIVES: Literal["ApproximateReceiveCount"] = "ApproximateReceiveCount"
_SENT: Literal["SentTimestamp"] = "SentTimestamp"
_T = TypeVar("_T")
_LANE_NAMES = (*BANDS, *(f"lane{number}" for number in range(len(BANDS), MAX_LANES)))
_NO_SUCH_QUEUE = {"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"}


RESEND = -1
"""Instead of a rank: find the open tasks of the step and send a message for each. See also `Ticket.check`."""

_FIRST_CHECK = -1_000_000_000
"""Ranks down to here continue a resend; below it are the times of checks."""


class Ticket(NamedTuple):
    """The body of a task message: one shard of a step that may be ready to run."""

    job_id: str
    run: int
    step: int
    gen: int
    rank: int

    @property
    def step_key(self) -> tuple[str, int, int]:
        return self.job_id, self.run, self.step

    @classmethod
    def check(cls, job_id: str, run: int, step: int, gen: int, time: int) -> Ticket:
        """A message sent after the messages of a step, to detect lost ones. Its rank is the negative time at
        which it was sent, in milliseconds."""
        return cls(job_id, run, step, gen, -time)

    @property
    def check_time(self) -> int | None:
        return -self.rank if self.rank < _FIRST_CHECK else None

    @property
    def resend_from(self) -> int:
        """The rank at which a resend continues."""
        return RESEND - self.rank if _FIRST_CHECK <= self.rank <= RESEND else 0

    def encode(self) -> str:
        return json.dumps([self.job_id, self.run, self.step, self.gen, self.rank], separators=(",", ":"))

    @classmethod
    def decode(cls, body: str) -> Ticket | None:
        """Return None if the body is not a ticket."""
        try:
            job_id, *numbers = json.loads(body)
            run, step, gen, rank = numbers
        except (ValueError, TypeError):
            return None
        if not isinstance(job_id, str) or not all(isinstance(number, int) for number in numbers):
            return None
        return cls(job_id, run, step, gen, rank)


class Message(NamedTuple):
    queue: str
    handle: str
    body: str
    id: str = ""
    receives: int = 1
    sent: int = 0
    """When it was sent, in milliseconds."""


class SendRefused(Transient):
    """SQS rejected messages of a batch after several attempts; retry later."""


class Queues:
    def __init__(self, client: SQSClient, dead_queue: str) -> None:
        self._client = client
        self._dead_queue = dead_queue

    def make_lanes(
        self,
        prefix: str,
        group: str,
        generation: int,
        lease_seconds: int,
        *,
        first: int = 0,
        tagged: bool = True,
    ) -> list[str]:
        """Create the queues of a group, starting with number `first`. Idempotent.

        `prefix`: of all queues of the deployment. `tagged`: the alarm about waiting tasks finds them.
        """
        if len(prefix) > MAX_PREFIX:
            raise ValueError(
                f"the prefix {prefix!r} is too long for queue names; choose a shorter stack name"
            )
        digest = hashlib.sha256(group.encode()).hexdigest()[:8]
        attributes = {
            "VisibilityTimeout": str(lease_seconds),
            "MessageRetentionPeriod": str(RETENTION_SECONDS),
            "SqsManagedSseEnabled": "true",
        }
        return [
            self._client.create_queue(
                QueueName=f"{prefix}-{digest}-{lane}-{generation}",
                Attributes=attributes,  # type: ignore[arg-type]
                tags={"shardmill:deployment": prefix, "shardmill:group": group} if tagged else {},
            )["QueueUrl"]
            for lane in _LANE_NAMES[first:]
        ]

    def remove(self, urls: Iterable[str]) -> None:
        for url in urls:
            try:
                self._client.delete_queue(QueueUrl=url)
            except ClientError as error:
                if error.response["Error"]["Code"] not in _NO_SUCH_QUEUE:
                    raise

    def of_groups(self, prefix: str) -> Iterator[str]:
        """The queues that `make_lanes` created with this prefix."""
        ours = re.compile(rf"{re.escape(prefix)}-[0-9a-f]{{8}}-({'|'.join(_LANE_NAMES)})-\d+")
        pages = self._client.get_paginator("list_queues").paginate(
            QueueNamePrefix=f"{prefix}-", PaginationConfig={"PageSize": 1000}
        )
        for page in pages:
            yield from (url for url in page.get("QueueUrls", []) if ours.fullmatch(url.rsplit("/", 1)[1]))

    def receive(self, url: str, *, most: int, wait: int, hide: int) -> list[Message]:
        answer = self._client.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=min(most, BATCH),
            WaitTimeSeconds=wait,
            VisibilityTimeout=hide,
            MessageSystemAttributeNames=[_RECEIVES, _SENT],
        )
        return [
            Message(
                url,
                message["ReceiptHandle"],
                message["Body"],
                message["MessageId"],
                int(message.get("Attributes", {}).get(_RECEIVES, 1)),
                int(message.get("Attributes", {}).get(_SENT, 0)),
            )
            for message in answer.get("Messages", [])
        ]

    def is_empty(self, url: str) -> bool:
        """Whether a queue has no message: visible, hidden or delayed. The numbers may be a minute old."""
        answer = self._client.get_queue_attributes(QueueUrl=url, AttributeNames=list(_COUNTS))
        return not any(int(answer["Attributes"][name]) for name in _COUNTS)

    def send(self, url: str, tickets: Sequence[Ticket], *, delay: int = 0) -> None:
        for chunk in _batches(tickets):
            self._send(
                url,
                [
                    {"Id": str(at), "MessageBody": ticket.encode(), "MessageGroupId": ticket.job_id}
                    | ({"DelaySeconds": delay} if delay else {})
                    for at, ticket in enumerate(chunk)
                ],
            )

    def send_texts(self, url: str, bodies: Sequence[str], *, delay: int = 0) -> None:
        self.send_delayed(url, [(body, delay) for body in bodies])

    def send_delayed(self, url: str, messages: Sequence[tuple[str, int]]) -> None:
        """Send messages, each with its delay in seconds."""
        for chunk in _batches(messages):
            entries = []
            for at, (body, delay) in enumerate(chunk):
                delayed = {"DelaySeconds": delay} if delay else {}
                entries.append({"Id": str(at), "MessageBody": body, **delayed})
            self._send(url, entries)

    def _send(self, url: str, entries: list[Any]) -> None:
        for _ in range(_SEND_TRIES):
            failed = self._client.send_message_batch(QueueUrl=url, Entries=entries).get("Failed", [])
            if not failed:
                return
            refused = {entry["Id"] for entry in failed}
            entries = [entry for entry in entries if entry["Id"] in refused]
        raise SendRefused

    def delete(self, messages: Iterable[Message]) -> None:
        """Delete messages, best effort: a message that is received again is obsolete, and deleted then."""
        for url, chunk in _by_queue(messages):
            entries: Any = [{"Id": str(i), "ReceiptHandle": m.handle} for i, m in enumerate(chunk)]
            with _best_effort("delete-messages"):
                self._client.delete_message_batch(QueueUrl=url, Entries=entries)

    def hide(self, messages: Iterable[tuple[Message, int]]) -> None:
        """Set the visibility timeout of messages, best effort: the table holds the authoritative times."""
        seconds = dict(messages)
        for url, chunk in _by_queue(seconds):
            entries: Any = [
                {
                    "Id": str(i),
                    "ReceiptHandle": m.handle,
                    "VisibilityTimeout": max(0, min(seconds[m], MAX_HIDE_SECONDS)),
                }
                for i, m in enumerate(chunk)
            ]
            with _best_effort("change-visibility"):
                self._client.change_message_visibility_batch(QueueUrl=url, Entries=entries)

    def move_to_dead_letter_queue(self, message: Message) -> None:
        self._client.send_message(QueueUrl=self._dead_queue, MessageBody=message.body)
        self.delete([message])


@contextmanager
def _best_effort(action: Literal["delete-messages", "change-visibility"]) -> Iterator[None]:
    """Log a failed call instead of raising: the table holds the state, and messages are received again."""
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        logger.warning(
            "SQS batch call failed; the messages will reappear after their visibility timeout",
            extra={"action": action, "error": str(error)},
        )


def _batches(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    for at in range(0, len(items), BATCH):
        yield items[at : at + BATCH]


def _by_queue(messages: Iterable[Message]) -> Iterator[tuple[str, Sequence[Message]]]:
    queues: dict[str, dict[str, Message]] = {}
    for message in messages:
        queues.setdefault(message.queue, {})[message.handle] = message
    for url, listed in queues.items():
        for chunk in _batches(list(listed.values())):
            yield url, chunk
