"""The transitions between states, and the diagrams of them in docs/reference.md."""

from shardmill.model.states import JOB_MOVES, STEP_MOVES, TASK_MOVES, JobState, StepState, TaskState
from support.paths import PROJECT

REFERENCE = PROJECT / "docs" / "reference.md"
BEGIN, END = "<!-- states:begin -->", "<!-- states:end -->"


def diagrams() -> str:
    parts = []
    for title, moves in (("Job", JOB_MOVES), ("Step", STEP_MOVES), ("Task", TASK_MOVES)):
        lines = [f"  {a} --> {b}" for a, targets in moves.items() for b in sorted(targets)]
        parts.append("\n".join([f"{title}:", "", "```mermaid", "stateDiagram-v2", *lines, "```"]))
    return "\n\n".join(parts)


def test_every_state_is_in_its_table_and_ended_steps_and_tasks_have_no_transitions() -> None:
    assert set(JOB_MOVES) == set(JobState)
    assert set(STEP_MOVES) == set(StepState)
    assert set(TASK_MOVES) == set(TaskState)
    assert all(not STEP_MOVES[state] for state in StepState if state.ended)
    assert all(not TASK_MOVES[state] for state in TaskState if state.ended)


def test_the_documented_diagrams_match_the_tables() -> None:
    text = REFERENCE.read_text()
    documented = text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip()
    assert documented == diagrams()
