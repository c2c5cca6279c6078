from __future__ import annotations

import importlib
import pkgutil
import re

import shardmill.aws
import shardmill.engine
import shardmill.store
from shardmill.model import errors
from shardmill.model.errors import Transient
from shardmill.store.table import Contended


def test_the_docstring_draws_every_transient_error_under_its_module() -> None:
    for package in (shardmill.aws, shardmill.engine, shardmill.store):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    drawn: set[str] = set()
    module = ""
    for name in re.findall(r"[├└]── ([\w.]+)", errors.__doc__ or ""):
        if name[0].islower():
            module = name
        elif name != "Transient":
            drawn.add(f"shardmill.{module}.{name}")
    assert drawn == {f"{found.__module__}.{found.__name__}" for found in Transient.__subclasses__()}


def test_the_message_of_a_transient_error_is_its_docstring_by_default() -> None:
    assert str(Contended()) == Contended.__doc__
    assert str(Contended("other text")) == "other text"
