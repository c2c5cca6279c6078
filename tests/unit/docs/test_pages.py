"""The pages of docs/: links, examples, and statements that the code can confirm."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import yaml

from shardmill.engine import continuation
from shardmill.engine.errors import MillError
from shardmill.engine.jobs import children, deadlines
from shardmill.engine.running import finish
from shardmill.engine.schedules import outcomes
from shardmill.model.definition.field_types import StepType, type_of
from shardmill.model.time.meaning import describe_expression
from shardmill.model.time.schedule_expression import expression_fault
from shardmill.model.time.timetable import Timetable
from support.paths import PROJECT
from support.scenarios.schedule_clock import at

DOCS = PROJECT / "docs"
PACKAGE = PROJECT / "layers" / "core" / "python" / "shardmill"
GUIDES = [*sorted(DOCS.glob("*.md")), PROJECT / "README.md", PROJECT / "CONTRIBUTING.md"]
PAGES = [*GUIDES, *sorted((DOCS / "decisions").glob("*.md"))]
PROSE = [*PAGES, PROJECT / "SECURITY.md", PROJECT / "CHANGELOG.md", PROJECT / "tests/support/README.md"]


def page_name(page: Path) -> str:
    return str(page.relative_to(PROJECT))


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PROSE, ids=page_name)
def test_links_lead_to_existing_pages_and_headings(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_paths_of_source_files_exist(page: Path) -> None:
    for path in re.findall(r"`(\w+/[\w./]+\.(?:py|json|yaml))`", page.read_text()):
        assert any((root / path).exists() for root in (PROJECT, PACKAGE, PACKAGE.parent)), path


def sentences(page: Path) -> Iterator[str]:
    """The sentences of the text and of table cells; headings and examples have none."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for paragraph in re.split(r"\n\s*\n", text):
        if not paragraph.lstrip().startswith(("|", "#", "<")):
            for item in re.split(r"\n(?=\s*(?:[-*]|\d+\.) )", paragraph):
                yield from re.split(r"(?<=[.!?])\s+", item)
    for line in text.splitlines():
        if line.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", line.strip("| ")):
                yield from re.split(r"(?<=[.!?])\s+", cell.strip())


def test_sentences_of_table_cells_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("| a \\| b | c; d. E |\n| --- | --- |\n")
    assert list(sentences(page)) == ["a \\| b", "c; d.", "E", "---", "---"]


@pytest.mark.parametrize("page", PROSE, ids=page_name)
def test_a_sentence_has_at_most_thirty_words(page: Path) -> None:
    assert [sentence for sentence in sentences(page) if len(sentence.split()) > 30] == []


@pytest.mark.parametrize("page", GUIDES, ids=page_name)
def test_a_page_shows_an_example_within_its_first_ten_lines(page: Path) -> None:
    assert any(line.startswith("```") for line in page.read_text().splitlines()[:10])


def test_the_index_lists_every_decision_record() -> None:
    index = (DOCS / "decisions" / "README.md").read_text()
    listed = re.findall(r"(?m)^\| \[(\d{4})\]\(([\w-]+\.md)\) \| (.+) \|$", index)
    records = sorted((DOCS / "decisions").glob("0*.md"))
    assert [name for _, name, _ in listed] == [path.name for path in records]
    assert [f"# {number}: {title}" for number, _, title in listed] == [
        path.read_text().partition("\n")[0] for path in records
    ]


def examples(name: str = "examples") -> list[list[str]]:
    text = (DOCS / "schedules.md").read_text()
    table = text[text.index(f"<!-- {name}:begin -->") : text.index(f"<!-- {name}:end -->")]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    return [[cell.strip("` ") for cell in row] for row in rows]


@pytest.mark.parametrize(("cron", "zone", "after", "times"), examples())
def test_the_documented_clock_changes_are_true(cron: str, zone: str, after: str, times: str) -> None:
    table, moment = Timetable(cron=cron, timezone=zone), at(after)
    for wanted in times.split(", "):
        found = table.after(moment)
        assert found == at(wanted)
        moment = found


@pytest.mark.parametrize(("expression", "meaning"), examples("meanings"))
def test_the_documented_meanings_of_expressions_are_true(expression: str, meaning: str) -> None:
    assert expression_fault(expression) is None
    assert describe_expression(expression) == meaning


def test_all_examples_are_found() -> None:
    assert (len(examples()), len(examples("meanings"))) == (12, 14)


def test_every_event_is_documented() -> None:
    text = (DOCS / "events.md").read_text()
    documented = set(re.findall(r"^\| `([A-Z][\w ]+)` \|", text, re.MULTILINE))
    kinds = {
        finish.JOB_ENDED,
        finish.JOB_SUSPENDED,
        finish.STEP_ENDED,
        deadlines.JOB_LATE,
        outcomes.SCHEDULE_SKIPPED,
        children.CHILD_REFUSED,
        continuation.JOBS_DUE,
    }
    assert documented == kinds


def test_every_step_type_is_documented_and_has_an_example() -> None:
    text = (DOCS / "workers.md").read_text()
    documented = re.findall(r"^\| `(\w+)` \|", text[text.index("## Choose a step type") :], re.MULTILINE)
    example = yaml.safe_load((PROJECT / "examples" / "task-types.yaml").read_text())
    types = set(get_args(StepType))
    assert types <= set(documented)
    assert types == {type_of(step) for step in example["steps"]}


def problem_codes(error: type[MillError]) -> Iterator[str]:
    """The codes of the classes that are raised, not of those that only group others."""
    yield from () if error.code in ("error", "invalid", "not-found") else (error.code,)
    for kind in error.__subclasses__():
        yield from problem_codes(kind)


def test_every_problem_code_is_documented() -> None:
    text = (DOCS / "reference.md").read_text()
    documented = set(re.findall(r"`([a-z-]+)`", text[text.index("## Handle errors") :]))
    assert set(problem_codes(MillError)) - documented == set()
