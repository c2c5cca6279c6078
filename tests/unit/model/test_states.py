"""The moves between states: one table, drawn in the docs from that table."""

from shardmill.model.states import JOB_MOVES, STEP_MOVES, TASK_MOVES, JobState, StepState, TaskState
from support.paths import PROJECT

REFERENCE = PROJECT / "docs" / "reference.md"
BEGIN, END = "<!-- states:begin -->", "<!-- states:end -->"


def drawing() -> str:
    parts = []
    for title, moves in (("Job", JOB_MOVES), ("Step", STEP_MOVES), ("Task", TASK_MOVES)):
        lines = [f"  {a} --> {b}" for a, targets in moves.items() for b in sorted(targets)]
        parts.append("\n".join([f"{title}:", "", "```mermaid", "stateDiagram-v2", *lines, "```"]))
    return "\n\n".join(parts)


def test_every_state_has_its_moves_and_an_ended_step_or_task_stays_so() -> None:
    assert set(JOB_MOVES) == set(JobState)
    assert set(STEP_MOVES) == set(StepState)
    assert set(TASK_MOVES) == set(TaskState)
    assert all(not STEP_MOVES[state] for state in StepState if state.ended)
    assert all(not TASK_MOVES[state] for state in TaskState if state.ended)


def test_the_docs_draw_the_table() -> None:
    text = REFERENCE.read_text()
    drawn = text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip()
    assert drawn == drawing()
