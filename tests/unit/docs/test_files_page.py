"""docs/files.md is complete and its definitions are valid."""

import re

import pytest
import yaml

from shardmill.engine.files import split
from shardmill.engine.running import open_step
from shardmill.model.base import Model, spelled
from shardmill.model.blocks import MAX_ITEMS
from shardmill.model.definition.fields import StepDefine
from shardmill.model.definition.validation import check_definition
from shardmill.model.files import File, Partition
from shardmill.model.templates.expression import FILTERS, ORDERS
from shardmill.model.templates.render import KNOWN
from shardmill.model.transfers import MAX_UPLOAD_BYTES
from shardmill.model.worker import MAX_OUTPUT_BYTES
from support.paths import PROJECT

PAGE = (PROJECT / "docs" / "files.md").read_text()


@pytest.mark.parametrize("model", [File, Partition, StepDefine])
def test_page_names_every_field(model: type[Model]) -> None:
    values = {"items", "when", "runIfSkipped", "inputs", "outputs", "predata", "partition", "sharding"}
    fields = {spelled(name) for name in model.model_fields}
    wanted = fields & values if model is StepDefine else fields
    assert wanted
    assert {name for name in wanted if not re.search(rf"`{name}\b", PAGE)} == set()


def test_page_names_the_whole_template_language() -> None:
    language = PAGE[PAGE.index("## Write templates") : PAGE.index("## Use secrets")]
    for word in (*KNOWN, *FILTERS, *ORDERS, "==", "!=", "in", "not in", "and", "or", "not"):
        assert f"`{word}`" in language


def test_page_states_the_limits() -> None:
    limits = PAGE[PAGE.index("## Limits") :]
    limits_in_code = (
        MAX_OUTPUT_BYTES,
        open_step.MAX_VALUE_BYTES,
        MAX_ITEMS,
        split.MAX_PARTS,
        MAX_UPLOAD_BYTES,
    )
    assert limits_in_code == (64 * 2**10, 200_000, 10_000, 10_000, 5 * 2**30)
    for text in ("64 KB", "200 KB", "| 10,000 |", "5 GiB"):
        assert text in limits


def test_definitions_of_the_page_and_the_example_are_valid() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    texts = [f"jobName: x\n{text.replace('…', 'x')}" for text in blocks]
    assert len(texts) == 4
    for text in (*texts, (PROJECT / "examples" / "word-count.yaml").read_text()):
        found, faults = check_definition(yaml.safe_load(text))
        assert (found is not None, faults) == (True, [])
