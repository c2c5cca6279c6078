"""The work item that a worker gets for a leased task, and the receipt that it returns with its report."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from shardmill.aws.queues import Message
from shardmill.engine.task_id import task_id
from shardmill.engine.template_context import context_of, resolve_pack
from shardmill.model.blocks import Shard
from shardmill.model.definition.fields import StepDefine
from shardmill.model.definition.file_arguments import escape, escape_unknown, unknown_names
from shardmill.model.definition.references import waits_for_values
from shardmill.model.definition.step_types import render_content
from shardmill.model.definition.task_count import total
from shardmill.model.files import File
from shardmill.model.secrets.secret import is_reference, is_sealed
from shardmill.model.states import StepState, TaskState
from shardmill.model.templates.render import TemplateError, as_text, render, render_value
from shardmill.model.worker import Lease
from shardmill.store.rows import JobRow, StepRow

# Parameters come from the submitter; they must not change what the step's program loads, runs or calls.
_RESERVED = re.compile(
    r"""
    PATH | HOME | SHELL | USER | LOGNAME | TMPDIR | TZDIR
    | IFS | ENV | CDPATH | GLOBIGNORE | SHELLOPTS | BASHOPTS | PS\d
    | PROMPT_COMMAND | POSIXLY_CORRECT | ZDOTDIR
    | GCONV_PATH | LOCPATH | NLSPATH | HOSTALIASES | RES_OPTIONS | LOCALDOMAIN | RESOLV_.*
    | (BASH|LD|DYLD|MALLOC|GLIBC|NODE|NPM|_?JAVA|JDK|HADOOP|HIVE|YARN|TEZ|DOCKER|LUA|PHP|OPENSSL|SSL|CURL
      |REQUESTS|AWS|SHARDMILL)_.*
    | GIT_(SSH|EXEC|ASKPASS|CONFIG|PROXY|EXTERNAL|TEMPLATE|DIR|WORK|EDITOR|PAGER|SEQUENCE).*
    | R_(HOME|PROFILE|ENVIRON|LIBS).* | (PYTHON|PERL|RUBY).* | CLASSPATH | PHPRC | WGETRC
    | EDITOR | VISUAL | BROWSER | LESSOPEN | LESSCLOSE | .*PAGER
    | (?i:(http|https|ftp|all|no)_proxy)
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Receipt:
    """Sent with a lease and returned with the report, so that a report needs no read."""

    run: int
    queue: str
    handle: str
    shard: Shard
    gen: int = 0
    """The generation of the message; messages of older generations are void."""

    @property
    def message(self) -> Message | None:
        """None if the task was leased with a copy of its message, which stays in its queue."""
        return Message(self.queue, self.handle, "") if self.queue else None

    def encode(self) -> str:
        values = [self.run, self.queue, self.handle, self.shard.encode(), self.gen]
        return json.dumps(values, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> Receipt | None:
        """Parse a receipt; None if it is malformed. It is untrusted until a conditional write succeeds."""
        try:
            run, queue, handle, entry, gen = json.loads(text)
            shard = Shard.decode(entry)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            return None
        numbers = (
            run,
            gen,
            shard.attempt,
            shard.failures,
            shard.losses,
            shard.rejections,
            shard.time,
            shard.span,
        )
        whole = all(isinstance(number, int) and number >= 0 for number in numbers)
        return (
            cls(run, queue, handle, shard, gen)
            if whole and isinstance(queue, str) and isinstance(handle, str)
            else None
        )


def work_item(step: StepRow, rank: int, shard: Shard, receipt: Receipt, lease_seconds: int) -> Lease:
    """The work item of a task. If its templates cannot be rendered, one with a `fault`, which fails."""
    spec = step.define
    try:
        return _work_item(step, spec, rank, shard, receipt, lease_seconds)
    except (TemplateError, ValidationError) as error:
        bare = StepDefine.model_construct(step_name=spec.step_name, start_shard_id=spec.start_shard_id)
        faulty = _work_item(step, bare, rank, shard, receipt, lease_seconds)
        return faulty.model_copy(update={"fault": f"the task cannot be rendered: {describe_error(error)}"})


def describe_error(error: TemplateError | ValidationError) -> str:
    if isinstance(error, TemplateError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _work_item(
    step: StepRow, spec: StepDefine, rank: int, shard: Shard, receipt: Receipt, lease_seconds: int
) -> Lease:
    context = context_of(step, spec, rank)
    content, command = _rendered(spec, context)
    return Lease.model_validate(
        {
            "taskId": task_id(step, rank),
            "attempt": shard.attempt,
            "receipt": receipt.encode(),
            "jobName": step.job_name,
            "trigger": step.trigger,
            "jobId": step.job_id,
            "run": step.run,
            "stepName": step.name,
            "sharding": context["shard"],
            "pack": context.get("pack"),
            "type": spec.type,
            "content": content,
            "command": command,
            "params": spec.params,
            "environ": _environ(step, spec, context, shard.attempt),
            "timeoutSeconds": spec.timeout_seconds,
            "executeUser": spec.execute_user,
            "leaseSeconds": lease_seconds,
            "dataTime": context["job"]["dataTime"] or None,
            "prepare": _needs_files(spec) or step.context.get("token", False),
            "retried": shard.attempt > step.attempts_before + 1,
        }
    )


def _needs_files(spec: StepDefine) -> bool:
    private = spec.command.environ.private.values() if spec.command else ()
    return bool(spec.inputs or spec.outputs or spec.predata) or any(map(_is_fetched, private))


def _is_fetched(private: str) -> bool:
    """Whether a worker gets a value when it holds the task; rows of earlier releases have plain values."""
    return is_reference(private) or is_sealed(private)


def check_renders(spec: StepDefine, job: JobRow) -> None:
    """Render the first task of a step, to check its templates when the Job is submitted.

    Raises TemplateError, or ValidationError if the rendered task is not valid.
    """
    document = spec.model_dump(mode="json", exclude_defaults=True)
    if waits_for_values(document):
        return  # the outputs that it uses do not exist yet
    step = StepRow(
        job_id=job.id,
        run=job.run,
        index=0,
        name=spec.step_name,
        state=StepState.WAITING,
        job_name=job.job_name,
        trigger=job.trigger,
        create_time=job.create_time,
        total=total(spec) or 1,
        spec=document,
    )
    if spec.step_type == "PACK":
        step = step.evolve(context={"pack": resolve_pack(step, spec)})
    entry = Shard(TaskState.RUNNING, attempt=1, worker="trial.1", time=1)
    item = _work_item(step, spec, 0, entry, Receipt(1, "", "", entry), 60)
    names: list[str] = []
    for file in (*spec.inputs, *spec.outputs, *spec.predata):
        document = file.model_dump(exclude_none=True)
        names.append(File.model_validate(render_value(document, context_of(step, spec, 0), False)).name)
    for arguments in (item.command.args, item.command.args_array) if item.command else ():
        for name in unknown_names(arguments or (), names):
            raise TemplateError(f"@{name[:64]} in the arguments is not a file of this step")


def _rendered(spec: StepDefine, context: dict[str, Any]) -> tuple[Any, dict[str, Any] | None]:
    content = render_content(spec.type, spec.content, context)
    if not spec.command:
        return content, None
    given = spec.command.model_dump(include={"name", "dockerimage", "expand_variables"}, exclude_none=True)
    command: dict[str, Any] = render_value(given, context, False)
    files = [file.name for file in (*spec.inputs, *spec.predata, *spec.outputs)]
    if spec.command.args_array is not None:
        texts = [escape_unknown(text, files, split=False) for text in spec.command.args_array]
        command["args_array"] = [render(text, context, False, escape) for text in texts]
    if spec.command.args:  # the worker splits args into words, so values are quoted
        text = escape_unknown(spec.command.args, files, split=True)
        command["args"] = render(text, context, True, escape)
    return content, command


def _environ(step: StepRow, spec: StepDefine, context: dict[str, Any], attempt: int) -> dict[str, str]:
    params = {name: as_text(value) for name, value in spec.params.items()}
    environ = {name: text for name, text in params.items() if not _RESERVED.fullmatch(name)}
    if spec.command:
        private = spec.command.environ.private
        kept = {name: text for name, text in private.items() if not _is_fetched(text)}
        environ |= render_value(spec.command.environ.public | kept, context, False)
    environ |= {
        "SHARDMILL_JOB_NAME": step.job_name,
        "SHARDMILL_TRIGGER": step.trigger,
        "SHARDMILL_JOB_ID": step.job_id,
        "SHARDMILL_STEP_NAME": step.name,
        "SHARDMILL_TASK_ID": context["task"]["id"],
        "SHARDMILL_RUN": str(step.run),
        "SHARDMILL_ATTEMPT": str(attempt),
        "SHARDMILL_SHARD_INDEX": str(context["shard"]["index"]),
        "SHARDMILL_SHARD_TOTAL": str(context["shard"]["total"]),
        "SHARDMILL_PARAMS": json.dumps(spec.params),
    }
    if context["job"]["dataTime"]:
        environ["SHARDMILL_DATA_TIME"] = context["job"]["dataTime"]
    if "item" in context:
        environ["SHARDMILL_ITEM"] = as_text(context["item"])
    if "pack" in context:
        environ["SHARDMILL_PACK_START"] = str(context["pack"]["start"])
        environ["SHARDMILL_PACK_END"] = str(context["pack"]["end"])
    return environ
