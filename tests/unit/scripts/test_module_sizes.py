"""`make layers`: no folder has so many modules that a newcomer does not find one."""

from pathlib import Path

import pytest
from scripts import module_sizes


def _fill(folder: Path, count: int, suffix: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"module_{number}{suffix}").touch()


@pytest.mark.parametrize(
    ("folder", "suffix"),
    [
        ("layers/core/python/shardmill/engine", ".py"),
        ("layers/core/python/shardmill/web/static/views", ".js"),
        ("scripts", ".py"),
        ("tests/integration", ".py"),
        ("tests/support/scenarios", ".py"),
    ],
)
def test_a_folder_with_more_than_twenty_modules_is_reported(tmp_path: Path, folder: str, suffix: str) -> None:
    _fill(tmp_path / folder, 21, suffix)
    [fault] = module_sizes.crowded_folders(
        path.relative_to(tmp_path) for path in module_sizes.modules(tmp_path)
    )
    assert fault.startswith(f"{folder}/ has 21 modules, more than 20")


def test_each_folder_is_counted_by_itself_and_without_its_init_module(tmp_path: Path) -> None:
    _fill(tmp_path / "tests/integration", 20, ".py")
    _fill(tmp_path / "tests/integration/files", 20, ".py")
    (tmp_path / "tests/integration/__init__.py").touch()
    _fill(tmp_path / "tests/data", 21, ".json")
    assert len(list(module_sizes.modules(tmp_path))) == 40
    assert not list(module_sizes.crowded_folders(module_sizes.modules(tmp_path)))


def test_the_project_is_within_the_limits() -> None:
    assert list(module_sizes.faults()) == []
