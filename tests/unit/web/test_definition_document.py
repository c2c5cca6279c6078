"""The editor of definitions leaves out default values: its list of them agrees with the model."""

import json
import re
from typing import Any

import pytest

from shardmill.model.base import Model
from shardmill.model.definition.fields import Info, JobDefine, StepDefine
from shardmill.model.files import File, Partition
from shardmill.web.assets import STATIC

SOURCE = (STATIC / "parts/definition_document.js").read_text()


def _list_of(name: str) -> dict[str, Any]:
    [found] = re.findall(rf"^const {name} = (\{{.*\}});$", SOURCE, re.MULTILINE)
    return dict(json.loads(re.sub(r"(\w+):", r'"\1":', found)))


DEFAULTS, OF_DEFINITION, OF_STEP = map(_list_of, ("DEFAULTS", "OF_DEFINITION", "OF_STEP"))
MODELS: tuple[type[Model], ...] = (JobDefine, StepDefine, File, Info, Partition)


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_value_that_is_left_out_is_the_default_of_its_field(name: str) -> None:
    found = [
        field.default for model in MODELS for field in model.model_fields.values() if name == field.alias
    ]
    assert found
    assert all(default == DEFAULTS[name] for default in found)


@pytest.mark.parametrize(("model", "listed"), [(JobDefine, OF_DEFINITION), (StepDefine, OF_STEP)])
def test_each_simple_default_of_a_definition_and_its_steps_is_left_out(
    model: type[Model], listed: dict[str, Any]
) -> None:
    defaults = {field.alias: field.default for field in model.model_fields.values()}
    simple = {name: value for name, value in defaults.items() if isinstance(value, int | float | str)}
    simple.pop("type", None)  # every step of a document names its type
    assert simple == {name: value for name, value in (DEFAULTS | listed).items() if name in simple}
    assert set(listed) <= set(simple)
