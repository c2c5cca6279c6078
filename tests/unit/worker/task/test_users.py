"""executeUser: the user that a task runs as, with and without --switch-user."""

import os
import pwd
import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardmill.model.worker import Lease, Result
from shardmill.worker.task import users
from shardmill.worker.task.execute import Runtime, execute
from shardmill.worker.task.programs import Programs
from support.fakes.leases import a_lease
from support.fakes.programs import stand_in

OWN = users.own_name()
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can switch users")


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    """A work folder that other users can access, unlike pytest's own folders."""
    root = Path(tempfile.mkdtemp(prefix="shardmill-test-"))
    yield Runtime(root / "work", kill_seconds=0.3)
    shutil.rmtree(root)


@pytest.fixture
def open_runtime(runtime: Runtime) -> Runtime:
    runtime.root.parent.chmod(0o711)
    return replace(runtime, switch_user=True)


def run(lease: Lease, runtime: Runtime) -> Result:
    return execute(lease, runtime, threading.Event())


@pytest.mark.parametrize("switch", [False, True])
def test_a_task_of_the_workers_own_user_runs_without_a_switch(runtime: Runtime, switch: bool) -> None:
    lease = a_lease(content="echo $SHARDMILL_EXECUTE_USER $(id -un)", executeUser=OWN)
    result = run(lease, replace(runtime, switch_user=switch))
    assert (result.outcome, result.stdout) == ("success", f"{OWN} {OWN}\n")


def test_a_worker_without_switch_user_rejects_tasks_of_other_users(runtime: Runtime, tmp_path: Path) -> None:
    result = run(a_lease(content=f"touch {tmp_path}/ran", executeUser="alice"), runtime)
    assert result.outcome == "rejected"
    assert result.reason == (
        f"the task must run as user 'alice', but this worker runs as {OWN!r}: "
        "start a worker with --switch-user to run it"
    )
    assert not (tmp_path / "ran").exists()


def test_a_task_of_an_unknown_user_is_rejected(runtime: Runtime) -> None:
    result = run(a_lease(content=":", executeUser="no-such-user"), replace(runtime, switch_user=True))
    assert (result.outcome, result.reason) == (
        "rejected",
        "user 'no-such-user' does not exist on this worker's machine",
    )


def test_a_worker_that_is_not_root_cannot_switch_users(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = pwd.getpwnam("nobody")
    monkeypatch.setattr(os, "geteuid", lambda: nobody.pw_uid)
    result = run(a_lease(content=":", executeUser="root"), replace(runtime, switch_user=True))
    assert (result.outcome, result.reason) == (
        "rejected",
        "this worker runs as 'nobody' and cannot switch to 'root': that needs root",
    )


@as_root
def test_a_switched_task_has_the_permissions_home_and_folders_of_its_user(open_runtime: Runtime) -> None:
    nobody = pwd.getpwnam("nobody")
    content = """
        echo $(id -un) $(id -gn) $HOME $USER $LOGNAME
        touch made && echo '{"by": "nobody"}' > $SHARDMILL_OUTPUT && cat $SHARDMILL_PARAMS_FILE
        ls .. >/dev/null 2>&1 || echo private
        (echo x > ../stdout2) 2>/dev/null || echo no access
    """
    lease = a_lease(content=content, executeUser="nobody", params={"day": "x"})
    result = run(lease, open_runtime)
    assert result.stderr is None
    first, *rest = (result.stdout or "").splitlines()
    assert first.split() == ["nobody", *first.split()[1:2], nobody.pw_dir, "nobody", "nobody"]
    assert rest == ['{"day": "x"}private', "no access"]
    assert (result.outcome, result.output) == ("success", {"by": "nobody"})
    assert list(open_runtime.root.iterdir()) == []


@as_root
def test_a_switched_task_has_none_of_the_workers_groups(open_runtime: Runtime) -> None:
    result = run(a_lease(content="id -G", executeUser="nobody"), open_runtime)
    nobody = pwd.getpwnam("nobody")
    assert {int(each) for each in (result.stdout or "").split()} == set(
        os.getgrouplist("nobody", nobody.pw_gid)
    )


@as_root
def test_a_long_script_can_be_read_by_its_user(open_runtime: Runtime) -> None:
    lease = a_lease(content="id -un\n" + "#" * 200_000, executeUser="nobody")
    assert run(lease, open_runtime).stdout == "nobody\n"


@as_root
def test_a_symlink_in_place_of_the_output_is_not_followed(open_runtime: Runtime, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('"s3cret"')
    lease = a_lease(content=f"ln -s {secret} $SHARDMILL_OUTPUT", executeUser="nobody")
    result = run(lease, open_runtime)
    assert (result.outcome, result.output) == ("failed", None)
    assert (result.reason or "").startswith("cannot read the output in $SHARDMILL_OUTPUT: ")


@as_root
def test_a_switched_task_is_stopped_at_its_timeout(open_runtime: Runtime) -> None:
    result = execute(
        a_lease(content="sleep 60", executeUser="nobody"), open_runtime, threading.Event(), limit_seconds=0.3
    )
    assert result.reason == "timed-out"


@as_root
def test_the_container_runs_as_the_user_and_docker_as_the_worker(
    open_runtime: Runtime, tmp_path: Path
) -> None:
    docker = stand_in(tmp_path / "bin", "docker", "print(os.getuid())")
    runtime = replace(open_runtime, programs=Programs(docker=str(docker.path)))
    result = run(a_lease("docker", "alpine", executeUser="nobody"), runtime)
    nobody: Any = pwd.getpwnam("nobody")
    (words,) = docker.words
    assert words[words.index("--user") + 1] == f"{nobody.pw_uid}:{nobody.pw_gid}"
    assert result.stdout == "0\n"


@as_root
@pytest.mark.parametrize("wanted", [None, "nobody"])
def test_with_a_task_user_tasks_run_as_that_user(open_runtime: Runtime, wanted: str | None) -> None:
    content = "id -un; cat /proc/$PPID/environ >/dev/null 2>&1 || echo unreadable"
    runtime = replace(open_runtime, switch_user=False, task_user="nobody")
    result = run(a_lease(content=content, executeUser=wanted), runtime)
    assert (result.outcome, result.stdout) == ("success", "nobody\nunreadable\n")


@as_root
@pytest.mark.parametrize(("wanted", "reason"), [(OWN, "as its own user"), ("daemon", "--switch-user")])
def test_with_a_task_user_no_task_runs_as_the_worker(open_runtime: Runtime, wanted: str, reason: str) -> None:
    runtime = replace(open_runtime, switch_user=False, task_user="nobody")
    result = run(a_lease(content=":", executeUser=wanted), runtime)
    assert result.outcome == "rejected"
    assert reason in (result.reason or "")
