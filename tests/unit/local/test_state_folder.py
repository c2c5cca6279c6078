"""The state folder, and how the command line finds a running `dev`."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from shardmill.client.dev_session import Session, alive, find_session, session_folder
from shardmill.local import state_folder
from shardmill.local.deploy import Endpoint
from shardmill.local.environment import (
    aws_environment,
    clean_environment,
    session_environment,
    worker_environment,
)
from shardmill.local.errors import Refused
from shardmill.local.state_folder import StateFolder
from support.processes import child_process
from support.waits import run_until

OUTPUTS = {
    "StackName": "s",
    "TableName": "t",
    "BucketName": "b",
    "JobMachineArn": "j",
    "StepMachineArn": "m",
    "LambdaQueueUrls": "h,n,l",
    "DeadQueueUrl": "d",
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def a_session(folder: StateFolder, pid: int | None = None) -> Session:
    here = "http://127.0.0.1:1"
    return Session(here + "/x", "secret", here, pid or os.getpid(), str(folder.path), OUTPUTS)


def dead_pid() -> int:
    with child_process([sys.executable, "-c", ""]) as process:
        process.wait(20)
    return process.pid


def test_the_default_folder_is_in_the_current_folder(tmp_path: Path) -> None:
    assert StateFolder.at(None).path == tmp_path / ".shardmill"


def test_the_admin_token_is_created_once_and_private(tmp_path: Path) -> None:
    folder = StateFolder.at(tmp_path / "s")
    token = folder.admin_token()
    assert len(token) >= 40
    assert StateFolder.at(tmp_path / "s").admin_token() == token
    assert stat.S_IMODE((folder.path / "admin-token").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_created_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="--state"):
        StateFolder.at(tmp_path / "file" / "s")


def test_a_second_dev_on_the_same_folder_is_rejected(tmp_path: Path) -> None:
    folder = StateFolder.at(tmp_path / "s")
    with (
        folder.locked(),
        pytest.raises(Refused, match=rf"process {os.getpid()}.*{folder.path}.*--state"),
        StateFolder.at(tmp_path / "s").locked(),
    ):
        pass
    with folder.locked():
        pass


def test_dev_waits_for_a_lock_whose_owner_exited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_folder, "STOPPING_SECONDS", 0.2)
    folder = StateFolder.at(tmp_path / "s")
    with folder.locked() as held:
        os.pwrite(held, str(dead_pid()).encode() + b"     ", 0)
        with pytest.raises(Refused), StateFolder.at(tmp_path / "s").locked():
            pass


def test_the_deployment_is_saved(tmp_path: Path) -> None:
    folder = StateFolder.at(tmp_path / "s")
    assert folder.deployment() == {}
    folder.save_deployment(version="v", port=1)
    folder.save_deployment(port=2)
    assert StateFolder.at(tmp_path / "s").deployment() == {"version": "v", "port": 2}


@pytest.mark.parametrize("text", ["", '{"version": "v', "[]", "\0"])
def test_a_corrupt_deployment_file_is_rejected_and_nothing_is_removed(tmp_path: Path, text: str) -> None:
    """If it were ignored, the state would be removed as that of an unfinished first deployment."""
    folder = StateFolder.at(tmp_path / "s")
    folder.services.mkdir(parents=True)
    file = folder.path / "deployment.json"
    file.write_text(text)
    for refused in (folder.prepare, folder.deployment, lambda: folder.save_deployment(port=1)):
        with pytest.raises(Refused, match=f"{file}.* remove the state folder {folder.path} "):
            refused()
    assert file.read_text() == text
    assert folder.services.exists()


def test_the_state_of_an_unfinished_first_deployment_is_removed(tmp_path: Path) -> None:
    folder = StateFolder.at(tmp_path / "s")
    folder.prepare()
    (folder.cloud / "state").mkdir()
    folder.prepare()
    assert not (folder.cloud / "state").exists()
    folder.save_deployment(version="v")
    (folder.cloud / "state").mkdir()
    folder.prepare()
    assert (folder.cloud / "state").exists()


def test_temporary_folders_are_removed_until_the_time_is_up(tmp_path: Path) -> None:
    folder = StateFolder.at(tmp_path / "s")
    folder.prepare()
    for name in ("one", "two"):
        (folder.scratch / name / "layer").mkdir(parents=True)
    state_folder.remove(folder.temporary_folders(), -1.0)
    assert len(folder.temporary_folders()) == 2
    state_folder.remove(folder.temporary_folders(), 5.0)
    assert folder.temporary_folders() == []


def test_a_published_session_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = a_session(StateFolder.at(tmp_path / "s"))
    assert find_session() is None
    session.publish()
    assert find_session() == session
    for file in (*session_folder().iterdir(), tmp_path / "s" / "dev.json"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    session.withdraw()
    assert find_session() is None
    assert list(session_folder().iterdir()) == []


def test_the_session_of_the_current_folder_comes_first(tmp_path: Path) -> None:
    here, there = a_session(StateFolder.at(None)), a_session(StateFolder.at(tmp_path / "other"))
    here.publish()
    there.publish()
    assert find_session() == here


def test_a_session_whose_process_exited_is_ignored(tmp_path: Path) -> None:
    a_session(StateFolder.at(tmp_path / "s"), dead_pid()).publish()
    assert find_session() is None


def test_the_newest_session_is_found_first(tmp_path: Path) -> None:
    with child_process([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        early = a_session(StateFolder.at(tmp_path / "s"), other.pid)
        late = a_session(StateFolder.at(tmp_path / "t"))
        early.publish()
        os.utime(session_folder() / f"{other.pid}.json", (1, 1))
        late.publish()
        assert find_session() == late
        late.withdraw()
        assert find_session() == early
        other.communicate(b"\n", timeout=50)
    assert find_session() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": 1}'])
def test_a_corrupt_session_file_is_ignored(text: str) -> None:
    session_folder().mkdir(parents=True)
    (session_folder() / "1.json").write_text(text)
    assert find_session() is None


def test_the_environment_of_a_session_has_every_setting(tmp_path: Path) -> None:
    from shardmill.aws.settings import Settings

    environ = session_environment(a_session(StateFolder.at(tmp_path / "s")))
    settings = Settings.from_environment(environ)
    assert (settings.table, settings.lambda_queue) == ("t", "h")
    assert environ["SHARDMILL_URL"] == "http://127.0.0.1:1/x"
    assert environ["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"


def test_a_worker_that_uses_aws_gets_no_token(tmp_path: Path) -> None:
    session = a_session(StateFolder.at(tmp_path / "s"))
    assert session_environment(session)["SHARDMILL_TOKEN"] == "secret"
    assert "secret" not in worker_environment(session).values()


def test_the_clean_environment_has_no_aws_variables_of_the_user() -> None:
    user = {
        "AWS_PROFILE": "work",
        "AWS_ENDPOINT_URL_DYNAMODB": "http://elsewhere",
        "AWS_CA_BUNDLE": "/ca",
        "AWS_ACCESS_KEY_ID": "real",
        "SHARDMILL_TABLE": "other",
        "HTTP_PROXY": "http://proxy:1",
        "NO_PROXY": "intranet",
        "PATH": "/bin",
    }
    environ = clean_environment(user) | aws_environment("http://127.0.0.1:1")
    assert environ["PATH"] == "/bin"
    assert environ["HTTP_PROXY"] == "http://proxy:1"
    assert environ["NO_PROXY"] == "intranet,127.0.0.1,localhost"
    assert environ["AWS_CONFIG_FILE"] == environ["AWS_SHARED_CREDENTIALS_FILE"] == os.devnull
    assert environ["AWS_ACCESS_KEY_ID"] == "test"
    assert not {"AWS_PROFILE", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_CA_BUNDLE", "SHARDMILL_TABLE"} & set(environ)


def test_the_clients_of_dev_ignore_the_aws_configuration_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(
        "[default]\nendpoint_url = http://elsewhere\ns3 =\n  addressing_style = virtual\n"
    )
    for name, value in {
        "AWS_PROFILE": "no-such-profile",
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_CA_BUNDLE": "/no/such/bundle",
        "AWS_ENDPOINT_URL_S3": "http://elsewhere",
        "AWS_USE_FIPS_ENDPOINT": "true",
        "AWS_USE_DUALSTACK_ENDPOINT": "true",
    }.items():
        monkeypatch.setenv(name, value)
    client = Endpoint("http://127.0.0.1:9").client("s3")
    url = client.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "key"})
    assert url.startswith("http://127.0.0.1:9/bucket/key?")


def test_finding_a_session_imports_little() -> None:
    """The command line does it at every start."""
    program = (
        "import sys, shardmill.client.dev_session; print({'boto3', 'yaml', 'ministack'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=True
    )
    assert done.stdout.strip() == "set()"


def test_a_killed_process_is_not_alive_even_if_its_parent_has_not_reaped_it() -> None:
    with child_process([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        assert alive(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        run_until(lambda: not alive(process.pid))
