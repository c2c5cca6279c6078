"""Clients of the AWE protocol: a client is a worker, whose name is the client's id."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from shardmill.engine.awe.lookup import own_client, possible_work_ids, work_ids
from shardmill.engine.awe.submit import create_groups
from shardmill.engine.errors import BadRequest
from shardmill.engine.groups.totals import record_totals
from shardmill.engine.mill import Mill
from shardmill.engine.tasks.interruption import hand_back
from shardmill.engine.tasks.report import report
from shardmill.engine.tasks.retry import DISCARDED, Outcome
from shardmill.engine.tasks.work_item import Receipt
from shardmill.engine.workers import registry
from shardmill.engine.workers.registry import worker_id
from shardmill.model.access.grants import WorkerGroups
from shardmill.model.actor import Actor
from shardmill.model.awe.faults import Faults
from shardmill.model.awe.names import ANY_GROUP, plain_name
from shardmill.model.worker import (
    MAX_APPS_BYTES,
    HandedBack,
    HeldTask,
    Registration,
    Result,
    output_size,
)
from shardmill.store.codec import to_json
from shardmill.store.rows import WorkerRow
from shardmill.store.workers import Tally

BEAT_MS = 25_000
"""The row of an idle client is written at most this often: heartbeats come every 10 s."""
UNKNOWN_MS = 60_000
"""A unit that is missing from its client's heartbeats for this time is taken back."""
SILENT_MS = 60_000
"""A client that sent nothing for this time may have lost its units."""
MAX_CLIENTS = 2_000
MAX_NAMED = 1_000
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z._:-]{0,99}\Z", re.ASCII)
_TEXTS = ("user", "domain", "instance_id", "instance_type")


def register(mill: Mill, profile: Any, actor: Actor, *, new_id: str, source_ip: str, now: int) -> WorkerRow:
    """Register a client by its profile. `new_id` becomes its id if the profile has none."""
    faults = Faults()
    document = faults.object(profile, "profile")
    client_id = faults.text(document.get("id"), "id").strip() or new_id
    if not _ID.match(client_id):
        faults.add("id", "must consist of at most 100 letters, digits and . _ : -")
    group = plain_name(faults.text(document.get("group"), "group").strip() or ANY_GROUP)
    registration = _registration(client_id, group, document, faults)
    if faults.texts:
        raise BadRequest(f"the profile of the client is not valid: {'; '.join(faults.texts[:20])}")
    groups = [group] if group == ANY_GROUP else [group, ANY_GROUP]
    if not actor.may("worker", WorkerGroups(groups)):
        groups = [group]  # a token of this group alone does not serve jobs without groups
    registration["groups"] = groups
    if actor.may("worker", WorkerGroups(groups)):
        create_groups(mill, groups, now)
    stored = {"name": faults.text(document.get("name"), "name")[:256] or client_id, "group": group}
    known = mill.workers.get(worker_id(client_id))
    kept = _units_that_it_runs(mill, known, document)
    worker = registry.register(
        mill,
        Registration.model_validate(registration),
        now,
        source_ip=source_ip,
        actor=actor,
        profile=stored,
        same_session=bool(kept),
    )
    left = set(known.work) - kept if known else set()
    return _hand_back(mill, worker, left, now, receipts=known.receipts if known else {})


def _units_that_it_runs(mill: Mill, known: WorkerRow | None, document: Mapping[str, Any]) -> set[str]:
    """The tasks that a client holds and still runs while it registers again.

    Clients do so when they read `Client not found`, or older ones when the server's uuid changes, without
    stopping their work. They name it in `current_work`; without that field, they may run all that they hold.
    """
    if not known or not known.work:
        return set()
    named = named_units(document.get("current_work"))
    if named is None:
        return set(known.work)
    return {task for task, unit in work_ids(mill, known.work).items() if unit in named}


def named_units(current_work: Any) -> Collection[str] | None:
    """The workunits that `current_work` of a client names; None if it is in no form that is known."""
    listed = current_work.get("data", current_work) if isinstance(current_work, dict) else current_work
    if isinstance(listed, dict):
        listed = list(listed)
    if not isinstance(listed, list):
        return None
    return {each for each in listed[:MAX_NAMED] if isinstance(each, str) and len(each) < 300}


def _registration(client_id: str, group: str, document: Mapping[str, Any], faults: Faults) -> dict[str, Any]:
    cores = next((document[name] for name in ("cores", "CPUs", "cpus") if document.get(name)), 1)
    apps = document.get("apps")
    listed = apps if isinstance(apps, list) else [] if apps is None else [apps]
    named = [faults.text(each, "apps")[:256] for each in listed][:200]
    if output_size(named) > MAX_APPS_BYTES:
        faults.add("apps", f"must have at most {MAX_APPS_BYTES} bytes; use *")
    found: dict[str, Any] = {
        "name": client_id,
        "groups": [group],
        "host": faults.text(document.get("host"), "host")[:256],
        "cores": min(100_000, max(1, faults.number(cores, "cores", default=1))),
        "apps": [each for each in named if each] or ["*"],
        "proxy": faults.flag(document.get("proxy"), "proxy"),
        "subclients": min(100_000, max(0, faults.number(document.get("subclients"), "subclients"))),
    }
    texts = {name: faults.text(document.get(name), name)[:256] for name in _TEXTS}
    return found | {name: text for name, text in texts.items() if text}


def heartbeat(
    mill: Mill, client_id: str, actor: Actor, named: Collection[str] | None, *, source_ip: str, now: int
) -> tuple[WorkerRow, list[str]]:
    """Record a heartbeat. Returns the client, and the ids of the workunits that it must discard.

    `named`: the workunits that the client lists as its own; None if it sends no list.
    """
    worker = own_client(mill, client_id, actor, now)
    lost = _lost(mill, worker, now) if named is None else set()
    if not worker.work:
        if now - worker.seen >= BEAT_MS or worker.offline:
            worker = _beat(mill, worker, [], source_ip, now)
        return worker, sorted(lost | set(named or ()))
    before = frozenset(worker.work)
    ids = work_ids(mill, before)
    worker = _take_back_unknown(mill, worker, ids, named, now)
    worker = _beat(mill, worker, _held(worker), source_ip, now)
    kept = {ids[task] for task in worker.work if task in ids}
    dropped = before.difference(worker.work)
    discard = {ids[task] for task in dropped if task in ids} | set(named or ()) - kept
    if named is None:
        discard.update(*(possible_work_ids(task) for task in dropped if task not in ids))
    return worker, sorted(discard | lost)


def _lost(mill: Mill, worker: WorkerRow, now: int) -> set[str]:
    """The units that a client lost during a silence and may still run.

    Reported units may be among them; clients ignore unknown ids.
    """
    if now - worker.seen < SILENT_MS:
        return set()
    return set(work_ids(mill, worker.receipts.keys() - worker.work).values())


def _held(worker: WorkerRow) -> list[HeldTask]:
    held = []
    for task in sorted(worker.work):
        receipt = Receipt.decode(worker.receipts.get(task, ""))
        if receipt:
            held.append(HeldTask(task_id=task, attempt=receipt.shard.attempt, run=receipt.run))
    return held


def _beat(mill: Mill, worker: WorkerRow, held: list[HeldTask], source_ip: str, now: int) -> WorkerRow:
    """Send the heartbeat of a client, and end the attempts that it is about to discard."""
    beat = registry.heartbeat(
        mill, worker.id, worker.session, held, offline=False, now=now, source_ip=source_ip
    )
    if not beat.drop:
        return beat.worker
    results = [
        Result(
            task_id=task.task_id,
            attempt=task.attempt,
            outcome=Outcome.FAILED.value,
            reason=DISCARDED,
            receipt=worker.receipts[task.task_id],
        )
        for task in held
        if task.task_id in beat.drop
    ]
    tally = Tally()
    report(mill, worker.id, results, now, tally=tally, trusted=False)
    tally.done |= set(beat.drop)
    return record_totals(mill, worker.id, tally, now) or beat.worker


def _take_back_unknown(
    mill: Mill, worker: WorkerRow, ids: Mapping[str, str], named: Collection[str] | None, now: int
) -> WorkerRow:
    """Take back units that the client does not name: the answer to its checkout was lost."""
    if named is None:
        return worker
    unknown = [task for task in worker.work if ids.get(task) not in named]
    return _hand_back(mill, worker, unknown, now, receipts=worker.receipts, after_ms=UNKNOWN_MS)


def _hand_back(
    mill: Mill,
    worker: WorkerRow,
    tasks: Collection[str],
    now: int,
    *,
    receipts: Mapping[str, str],
    after_ms: int = -1,
) -> WorkerRow:
    """Take tasks back that a client has had for longer than `after_ms`, and does not run."""
    lost = []
    for task in sorted(tasks):
        receipt = receipts.get(task, "")
        parsed = Receipt.decode(receipt)
        if parsed and now - parsed.shard.time > after_ms:
            why = "the client does not know the workunit"
            back = HandedBack(task_id=task, attempt=parsed.shard.attempt, receipt=receipt, reason=why)
            lost.append(back)
    if not lost:
        return worker
    hand_back(mill, worker.id, lost, now)
    done = Tally(done={each.task_id for each in lost})
    return record_totals(mill, worker.id, done, now) or worker


def suspend_all(mill: Mill, actor: Actor) -> int:
    """Suspend every worker that takes tasks; returns their number."""
    active = [row for row in mill.workers.page(after=None, limit=MAX_CLIENTS) if row.takes_tasks]
    for row in active:
        registry.suspend(mill, row.id, actor, "all clients")
    return len(active)


def resume_all(mill: Mill, now: int) -> int:
    """Resume every suspended worker, regardless of why it was suspended; returns their number."""
    rows = [row for row in mill.workers.page(after=None, limit=MAX_CLIENTS) if row.suspended or row.tired]
    for row in rows:
        registry.resume(mill, row.id, now)
    return len(rows)


def set_subclients(mill: Mill, worker: WorkerRow, number: int) -> None:
    registration = {**worker.registration, "subclients": number}
    mill.workers.change(worker.id, registration=to_json(registration))
