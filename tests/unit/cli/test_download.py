"""Target names of downloaded files."""

from pathlib import PurePosixPath

from hypothesis import given
from hypothesis import strategies as st

from shardmill.cli.download import target_names
from shardmill.client.errors import BadFile
from shardmill.model.transfers import JobFile
from support.fakes.api import job_file

FILE = st.builds(
    lambda step, name, index: JobFile.model_validate(
        job_file(name, b"", "", stepName=step, index=None if step is None else index)
    ),
    st.sampled_from([None, "main", "other"]),
    st.sampled_from(["a", "b", "0/a", "1/a", "a/b", "main/0/a", "job/a"]),
    st.integers(0, 2),
)


@given(st.lists(FILE, max_size=8, unique_by=lambda file: (file.step_name, file.index, file.name)))
def test_target_names_are_distinct(files: list[JobFile]) -> None:
    try:
        found = target_names(files)
    except BadFile:
        assert any("/" in file.name for file in files)  # a file and a folder have the same name
        return
    assert len(set(found)) == len(files)
    folders = {parent.as_posix() for name in found for parent in PurePosixPath(name).parents}
    assert not folders & set(found)
    assert all(name.endswith(file.name) for name, file in zip(found, files, strict=True))
    own = [file.name for file in files]
    if len(set(own)) == len(own) and not any("/" in name for name in own):
        assert found == own
