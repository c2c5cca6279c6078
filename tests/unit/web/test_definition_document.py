"""The editor of definitions leaves out default values: its list of them agrees with the model."""

import json
import re

import pytest

from shardmill.model.base import Model
from shardmill.model.definition.fields import Info, JobDefine, StepDefine
from shardmill.model.files import File, Partition
from shardmill.web.assets import STATIC

SOURCE = (STATIC / "parts/definition_document.js").read_text()
[_LIST] = re.findall(r"^const DEFAULTS = (\{.*\});$", SOURCE, re.MULTILINE)
DEFAULTS = json.loads(re.sub(r"(\w+):", r'"\1":', _LIST))
MODELS: tuple[type[Model], ...] = (JobDefine, StepDefine, File, Info, Partition)


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_value_that_is_left_out_is_the_default_of_its_field(name: str) -> None:
    found = [
        field.default for model in MODELS for field in model.model_fields.values() if name == field.alias
    ]
    assert found
    assert all(default == DEFAULTS[name] for default in found)
