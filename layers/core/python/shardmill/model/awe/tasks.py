"""The tasks of an AWE document: reading them, their graph, the origins of their inputs, and `skip`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shardmill.model.awe.faults import Faults
from shardmill.model.awe.files import AweFile, read_files, read_outputs
from shardmill.model.awe.names import MAX_NAME, MAX_TASK_ID, plain_name, step_name, without_job_id

MAX_TASKS = 2_000
MAX_WORK = 10_000

Rewired = Mapping[tuple[str, str], AweFile]
"""(task, output) of a skipped task -> the input that stands for the output."""


@dataclass(frozen=True, slots=True)
class AweTask:
    id: str
    where: str
    step: str
    """The name of its step."""
    command: dict[str, Any]
    depends_on: tuple[str, ...] = ()
    inputs: dict[str, AweFile] = field(default_factory=dict)
    outputs: dict[str, AweFile] = field(default_factory=dict)
    predata: dict[str, AweFile] = field(default_factory=dict)
    total_work: int = 1
    max_work_size: int = 0
    part_input: str = ""
    part_index: str = ""
    part_options: str = ""
    max_part_mb: int = 0
    """The limit of `partinfo`, in MB; that of the task comes first, which counts units of the index."""
    has_parts: bool = False
    """Whether the document has `partinfo` for it."""
    skip: bool = False
    userattr: dict[str, str] = field(default_factory=dict)

    @property
    def parents(self) -> list[str]:
        """The tasks of `dependsOn` and the origins of its files."""
        origins = [file.origin for file in (*self.inputs.values(), *self.predata.values()) if file.origin]
        return list(dict.fromkeys([*self.depends_on, *origins]))


def read_tasks(value: Any, faults: Faults) -> dict[str, AweTask]:
    """The tasks by id. If the ids are 0…n-1, they are in this order, so that an id is a step's index."""
    if not isinstance(value, list) or not value:
        faults.add("tasks", "must be a list with at least one task")
        return {}
    if len(value) > MAX_TASKS:
        faults.add("tasks", f"has {len(value)} tasks; the limit is {MAX_TASKS}")
        return {}
    found: dict[str, AweTask] = {}
    for at, each in enumerate(value):
        task = _task(faults.object(each, f"tasks[{at}]"), at, faults)
        if task.id in found:
            faults.add(f"{task.where}.taskid", f"the id {task.id[:64]!r} is used twice")
        found.setdefault(task.id, task)
    steps = _step_names(found)
    found = {task.id: replace(task, step=steps[task.id]) for task in found.values()}
    found = {task.id: _with_short_references(task, found) for task in found.values()}
    if {*found} == {str(number) for number in range(len(found))}:
        return {str(number): found[str(number)] for number in range(len(found))}
    return found


def _step_names(tasks: Iterable[str]) -> dict[str, str]:
    """The name of the step of each task; those whose names are taken get a number.

    Ids that are valid names come first, so that no other task has the name of their steps.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    last: dict[str, int] = {}
    for task in sorted(tasks, key=lambda each: (not each.isdecimal(), plain_name(each) != each)):
        name = base = step_name(task)
        while name in taken:
            last[base] = last.get(base, 1) + 1
            number = f"-{last[base]}"
            name = base[: MAX_NAME - len(number)] + number
        names[task] = name
        taken.add(name)
    return names


def _with_short_references(task: AweTask, tasks: Mapping[str, AweTask]) -> AweTask:
    """A task of a document that a server answered, where references have the id of the job before them."""

    def short(reference: str) -> str:
        rest = without_job_id(reference)
        return rest if rest in tasks and reference not in tasks else reference

    def files(listed: Mapping[str, AweFile]) -> dict[str, AweFile]:
        return {name: replace(file, origin=short(file.origin)) for name, file in listed.items()}

    parents = tuple(dict.fromkeys(map(short, task.depends_on)))
    return replace(task, depends_on=parents, inputs=files(task.inputs), predata=files(task.predata))


def _task(document: dict[str, Any], at: int, faults: Faults) -> AweTask:
    where = f"tasks[{at}]"
    command = faults.object(document.get("cmd"), f"{where}.cmd")
    if not faults.text(command.get("name"), f"{where}.cmd.name").strip():
        faults.add(f"{where}.cmd.name", "is missing")
    task_id = faults.text(document.get("taskid"), f"{where}.taskid").strip() or str(at)
    if len(task_id) > MAX_TASK_ID:
        faults.add(f"{where}.taskid", f"must have at most {MAX_TASK_ID} characters")
    parts = faults.object(document.get("partinfo"), f"{where}.partinfo")
    total = faults.number(document.get("totalwork"), f"{where}.totalwork", default=1)
    if total > MAX_WORK:
        faults.add(f"{where}.totalwork", f"must be at most {MAX_WORK}")
    return AweTask(
        id=task_id,
        where=where,
        step="",
        command=command,
        depends_on=tuple(_references(document.get("dependsOn"), f"{where}.dependsOn", faults)),
        inputs=read_files(document.get("inputs"), f"{where}.inputs", faults),
        outputs=read_outputs(document.get("outputs"), f"{where}.outputs", faults),
        predata=read_files(document.get("predata"), f"{where}.predata", faults),
        total_work=max(1, total),
        max_work_size=max(0, faults.number(document.get("maxworksize"), f"{where}.maxworksize")),
        part_input=faults.text(parts.get("input"), f"{where}.partinfo.input"),
        part_index=faults.text(parts.get("index"), f"{where}.partinfo.index"),
        part_options=faults.text(parts.get("options"), f"{where}.partinfo.options"),
        max_part_mb=max(0, faults.number(parts.get("maxpartsize_mb"), f"{where}.partinfo.maxpartsize_mb")),
        has_parts=bool(parts),
        skip=faults.flag(document.get("skip"), f"{where}.skip"),
        userattr=faults.attributes(document.get("userattr"), f"{where}.userattr"),
    )


def _references(value: Any, where: str, faults: Faults) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list):
        faults.add(where, "must be a list of task ids")
        return []
    listed = [faults.text(each, f"{where}[{at}]").strip() for at, each in enumerate(value)]
    return [each for each in dict.fromkeys(listed) if each]


def check_graph(tasks: Mapping[str, AweTask], faults: Faults) -> None:
    """Find references to tasks that do not exist, and a cycle."""
    known = True
    for task in tasks.values():
        for parent in task.depends_on:
            if parent not in tasks:
                faults.add(f"{task.where}.dependsOn", f"there is no task {parent!r}")
                known = False
        for file in (*task.inputs.values(), *task.predata.values()):
            if file.origin and file.origin not in tasks:
                faults.add(f"{file.where}.origin", f"there is no task {file.origin!r}")
                known = False
    if known and (cycle := _cycle(tasks)):
        faults.add("tasks", f"the dependencies form a cycle: {' -> '.join(cycle)}")


def _cycle(tasks: Mapping[str, AweTask]) -> list[str]:
    """A cycle in the graph as the ids on it; empty if there is none."""
    left = {task.id: set(task.parents) for task in tasks.values()}
    while free := [task for task, parents in left.items() if not parents]:
        for task in free:
            del left[task]
        for parents in left.values():
            parents.difference_update(free)
    if not left:
        return []
    path = [min(left)]
    while path.count(path[-1]) == 1:
        path.append(min(left[path[-1]]))
    return path[path.index(path[-1]) :]


def check_origins(tasks: dict[str, AweTask], faults: Faults) -> None:
    """Find inputs whose origin does not produce them, and give those without a source their only origin."""
    for task in list(tasks.values()):
        inputs = {name: _with_origin(file, task, tasks, faults) for name, file in task.inputs.items()}
        predata = {name: _with_origin(file, task, tasks, faults) for name, file in task.predata.items()}
        tasks[task.id] = replace(task, inputs=inputs, predata=predata)


def _with_origin(file: AweFile, task: AweTask, tasks: Mapping[str, AweTask], faults: Faults) -> AweFile:
    if file.origin:
        made = tasks[file.origin].outputs
        if file.name not in made:
            listed = ", ".join(map(repr, made)) or "none"
            faults.add(
                file.where,
                f"task {file.origin!r}, its origin, does not produce {file.name!r}; its outputs: {listed}",
            )
        return file
    if file.url or file.node:
        return file
    producers = [parent for parent in task.depends_on if file.name in tasks[parent].outputs]
    if len(producers) == 1:
        return replace(file, origin=producers[0])
    faults.add(file.where, "has no origin, no node and no url")
    return file


def skip_tasks(tasks: Mapping[str, AweTask]) -> Rewired:
    """The outputs of skipped tasks, with the input of the task that takes the place of each.

    Only a task with one input and one output can be skipped; any other runs.
    """
    direct = {
        (task.id, output): file
        for task in tasks.values()
        if skippable(task)
        for output, file in zip(task.outputs, task.inputs.values(), strict=True)
    }

    def resolved(file: AweFile) -> AweFile:
        while file.origin and (file.origin, file.name) in direct:
            file = direct[file.origin, file.name]
        return file

    return {place: resolved(file) for place, file in direct.items()}


def skippable(task: AweTask) -> bool:
    return task.skip and len(task.inputs) == 1 and len(task.outputs) == 1


def ancestors_of(task: AweTask, files: Iterable[AweFile]) -> list[str]:
    """The tasks that a task waits for, once the files of skipped tasks are replaced."""
    return list(dict.fromkeys([*task.depends_on, *(file.origin for file in files if file.origin)]))
