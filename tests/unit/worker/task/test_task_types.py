"""Task types: with the real programs where installed, otherwise with stand-ins that record their calls."""

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from shardmill.model.worker import Lease, Result
from shardmill.worker.task import process
from shardmill.worker.task.execute import Runtime, execute
from shardmill.worker.task.programs import Programs
from support.fakes.leases import a_command, a_lease
from support.fakes.programs import StandIn, stand_in
from support.processes import gone


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(tmp_path / "work", kill_seconds=0.3)


def run(lease: Lease, runtime: Runtime, **more: Any) -> Result:
    return execute(lease, runtime, threading.Event(), **more)


def set_when_written(path: Path) -> threading.Event:
    """Return an event that is set as soon as the file is not empty."""
    stop = threading.Event()

    def watch() -> None:
        while not (path.exists() and path.stat().st_size):
            time.sleep(0.02)
        stop.set()

    threading.Thread(target=watch, daemon=True).start()
    return stop


# command


def test_variables_in_arguments_are_expanded_on_request(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/x y")
    monkeypatch.setenv("SECRET_OF_THE_WORKER", "secret")
    words = "%s| ${HOME} -p=${PLACE}/${HOME} ${SECRET_OF_THE_WORKER} ${word} $HOME '@@{x}' ${}"
    given = {"params": {"word": "; rm -rf /"}, "environ": {"word": "; rm -rf /", "PLACE": "here"}}
    command = {"name": "printf", "args": words, "expandVariables": True}
    assert run(a_lease("command", command=command, **given), runtime).stdout == (
        "/home/x y|-p=here//home/x y|||$HOME|@{x}|${}|"
    )
    as_they_are = run(a_command("printf", argsArray=["%s|", "${HOME}"]), runtime)
    assert as_they_are.stdout == "${HOME}|"


# java

needs_java = pytest.mark.skipif(not shutil.which("javac"), reason="java is not installed")
MAIN = """
package acme;
public class Main {
    public static void main(String[] words) {
        System.out.println(String.join("|", words) + " " + System.getProperty("who") + " "
            + System.getenv("SHARDMILL_SHARD_INDEX"));
        System.exit(words.length > 0 && words[0].equals("bad") ? 42 : 0);
    }
}
"""


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("java")
    (folder / "Main.java").write_text(MAIN)
    subprocess.run(["javac", "-d", folder / "classes", folder / "Main.java"], check=True, timeout=30)
    jar = [
        "jar",
        "--create",
        "--file",
        folder / "app.jar",
        "--main-class",
        "acme.Main",
        "-C",
        folder / "classes",
    ]
    subprocess.run([*jar, "."], check=True, timeout=30)
    return folder


@needs_java
@pytest.mark.parametrize(
    ("content", "stdout", "exit_code"),
    [
        ("HERE/app.jar --x 'a b'", "--x|a b null 7\n", 0),
        ("-Dwho=me -cp HERE/classes acme.Main bad", "bad me 7\n", 42),
        ({"jar": "HERE/app.jar", "args": ["a b"], "jvmArgs": ["-Dwho=you"]}, "a b you 7\n", 0),
        ({"mainClass": "acme.Main", "classpath": ["/nowhere", "HERE/*"], "args": ["1"]}, "1 null 7\n", 0),
    ],
)
def test_java_runs_a_jar_or_a_class(
    runtime: Runtime, classes: Path, content: Any, stdout: str, exit_code: int
) -> None:
    content = json.loads(json.dumps(content).replace("HERE", str(classes)))
    result = run(a_lease("java", content, environ={"SHARDMILL_SHARD_INDEX": "7"}), runtime)
    assert (result.stdout, result.exit_code) == (stdout, exit_code)
    assert result.outcome == ("success" if exit_code == 0 else "failed-permanent")


# hive and hadoop

MakeStandIn = Callable[..., tuple[Runtime, StandIn]]


@pytest.fixture
def with_stand_in(runtime: Runtime, tmp_path: Path) -> MakeStandIn:
    """Return a function that creates a runtime with a stand-in for one program."""

    def make(name: str, does: str = "") -> tuple[Runtime, StandIn]:
        program = stand_in(tmp_path / "bin", name, does)
        return replace(runtime, programs=Programs(**{name: str(program.path)})), program

    return make


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("select 'a b' from t; -- ok", ["-e", "select 'a b' from t; -- ok"]),
        ({"query": "select 1"}, ["-e", "select 1"]),
        (
            {"file": "q.hql", "hiveconf": {"mapreduce.job.reduces": 3, "day": "2020-01-21"}},
            ["--hiveconf", "mapreduce.job.reduces=3", "--hiveconf", "day=2020-01-21", "-f", "q.hql"],
        ),
    ],
)
def test_hive_gets_the_query_as_arguments(with_stand_in: MakeStandIn, content: Any, words: list[str]) -> None:
    runtime, hive = with_stand_in("hive")
    assert run(a_lease("hive", content), runtime).outcome == "success"
    assert hive.words == [words]


def test_hive_gets_a_long_query_as_a_file(with_stand_in: MakeStandIn) -> None:
    runtime, hive = with_stand_in("hive", "print(len(open(sys.argv[2]).read()))")
    assert run(a_lease("hive", "select 1 -- " + "x" * 200_000), runtime).stdout == "200012\n"
    assert hive.words[0][0] == "-f"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("wc.jar count /in '/out dir'", ["jar", "wc.jar", "count", "/in", "/out dir"]),
        ({"jar": "wc.jar", "mainClass": "Count", "args": ["/in"]}, ["jar", "wc.jar", "Count", "/in"]),
    ],
)
def test_mapreduce_runs_hadoop_jar(with_stand_in: MakeStandIn, content: Any, words: list[str]) -> None:
    runtime, hadoop = with_stand_in("hadoop", "sys.exit(3)")
    assert run(a_lease("mapreduce", content), runtime).exit_code == 3
    assert hadoop.words == [words]


def test_hadoop_inherits_its_own_settings_but_not_those_of_the_worker(
    with_stand_in: MakeStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the worker's own")
    runtime, hadoop = with_stand_in("hadoop")
    run(a_lease("mapreduce", "a.jar", environ={"day": "1"}), runtime)
    (call,) = hadoop.calls
    assert (call["environ"]["HADOOP_CONF_DIR"], call["environ"]["day"]) == ("/etc/hadoop", "1")
    assert "AWS_SECRET_ACCESS_KEY" not in call["environ"]


@pytest.mark.parametrize(
    ("type", "name"), [("java", "java"), ("hive", "hive"), ("mapreduce", "hadoop"), ("docker", "docker")]
)
def test_a_task_is_rejected_if_its_program_is_not_installed(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, type: str, name: str
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    result = run(a_lease(type, "x"), runtime)
    assert result.outcome == "rejected"
    assert result.reason == (
        f"this worker has no {name}: add it to PATH, or start the worker with --{name} PATH"
    )
    other = replace(runtime, programs=Programs(**{name: "/opt/none"}))
    assert (run(a_lease(type, "x"), other).reason or "").startswith(f"this worker has no {name} (/opt/none)")


# docker

DOCKER = """
import time
if sys.argv[1] == "run":
    print("ran")
    sys.stdout.flush()
    {run}
"""


def option(words: list[str], name: str) -> list[str]:
    return [after for before, after in pairwise(words) if before == name]


@pytest.mark.parametrize(
    ("lease", "last"),
    [
        (a_lease("docker", "alpine:3 echo 'a b'"), ["alpine:3", "echo", "a b"]),
        (
            a_lease("docker", {"image": "alpine", "command": ["sh"], "args": ["-c", "x"]}),
            ["alpine", "sh", "-c", "x"],
        ),
        (
            a_command("./merge", args="--all 'a b'", dockerimage="acme/tools:1"),
            ["acme/tools:1", "./merge", "--all", "a b"],
        ),
        (
            a_lease("docker", command={"name": "ls", "argsArray": ["-l"], "dockerimage": "alpine"}),
            ["alpine", "ls", "-l"],
        ),
    ],
)
def test_docker_runs_an_image_with_the_work_folder_mounted(
    with_stand_in: MakeStandIn, lease: Lease, last: list[str]
) -> None:
    runtime, docker = with_stand_in("docker", DOCKER.format(run="pass"))
    result = run(lease, runtime)
    assert (result.outcome, result.stdout) == ("success", "ran\n")
    (words,) = docker.words
    (folder,) = {Path(mount.partition(":")[0]).parent for mount in option(words, "-v")}
    assert folder.parent == runtime.root
    assert words[:4] == ["run", "--rm", "--name", f"shardmill-{folder.name}"]
    assert option(words, "-v") == [f"{folder}/work:/work", f"{folder}/channel:/channel"]
    assert option(words, "-w") == ["/work"]
    assert words[-len(last) :] == last


DOCKER_INFO = """
if sys.argv[1] == "info":
    print({stdout!r})
    sys.exit({code})
"""


@pytest.mark.parametrize(
    ("uid", "stdout", "code", "info_calls", "user"),
    [
        (0, "", 0, 0, []),
        (1234, "  seccomp\n  cgroupns", 0, 1, ["1234:99"]),
        (1234, "  seccomp\n  rootless\n  cgroupns", 0, 1, []),
        (1234, "  security:\n    rootless: true", 0, 1, []),
        (1234, "  security:\n    rootless: false", 0, 1, ["1234:99"]),
        (1234, "  userns", 0, 1, []),
        (1234, "  rootless", 1, 2, ["1234:99"]),
    ],
)
def test_a_container_runs_as_the_worker_unless_root_or_rootless(
    with_stand_in: MakeStandIn,
    monkeypatch: pytest.MonkeyPatch,
    uid: int,
    stdout: str,
    code: int,
    info_calls: int,
    user: list[str],
) -> None:
    """The worker can then remove the container's files; `docker info` is repeated until it succeeds."""
    runtime, docker = with_stand_in("docker", DOCKER_INFO.format(stdout=stdout, code=code))
    monkeypatch.setattr("os.geteuid", lambda: uid)
    monkeypatch.setattr("os.getegid", lambda: 99)
    for _ in range(2):
        assert run(a_lease("docker", "alpine"), runtime).outcome == "success"
    assert [option(words, "--user") for words in docker.words if words[0] == "run"] == [user, user]
    assert sum(words[0] == "info" for words in docker.words) == info_calls


def test_a_container_gets_the_folders_of_its_task_and_no_docker_socket(
    with_stand_in: MakeStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/user/1/docker.sock")
    monkeypatch.setenv("SHARDMILL_TOKEN", "sm_fixture")
    runtime, docker = with_stand_in("docker", DOCKER.format(run="pass"))
    run(a_lease("docker", "alpine", environ={"KEY": "x"}), runtime)
    (words,) = docker.words
    mounts = [word for before, word in pairwise(words) if before == "-v"]
    assert [mount.rpartition(":")[2] for mount in mounts] == ["/work", "/channel"]
    passed = {word for before, word in pairwise(words) if before == "-e"}
    assert "KEY" in passed
    assert not passed & {"DOCKER_HOST", "SHARDMILL_TOKEN"}
    assert not {"--privileged", "--mount", "--volume"} & set(words)
    assert "docker.sock" not in " ".join(words)


def test_environment_values_are_not_on_the_docker_command_line(with_stand_in: MakeStandIn) -> None:
    show = "print(open(sys.argv[sys.argv.index('--env-file') + 1]).read())"
    runtime, docker = with_stand_in("docker", DOCKER.format(run=show))
    environ = {"TOKEN": "s3cret\nline", "DOCKER_HOST": "tcp://evil", "PATH": "/container/bin", "day": "1"}
    result = run(a_lease("docker", "alpine", environ=environ), runtime)
    (call,) = docker.calls
    names = option(call["words"], "-e")
    assert {"TOKEN", "day", "SHARDMILL_OUTPUT", "SHARDMILL_PROGRESS"} <= set(names)
    assert not {"DOCKER_HOST", "PATH"} & set(names)
    assert not any("s3cret" in word or "evil" in word for word in call["words"])
    assert call["environ"]["TOKEN"] == "s3cret\nline"
    assert call["environ"]["SHARDMILL_OUTPUT"] == "/channel/output"
    assert call["environ"].get("DOCKER_HOST") != "tcp://evil"
    assert (result.stdout or "").split() == ["ran", "DOCKER_HOST=tcp://evil", "PATH=/container/bin"]


def test_a_container_is_removed_when_its_task_is_stopped(with_stand_in: MakeStandIn) -> None:
    runtime, docker = with_stand_in("docker", DOCKER.format(run="time.sleep(60)"))
    result = execute(a_lease("docker", "alpine"), runtime, set_when_written(docker.calls_path))
    assert result.reason == "discarded"
    (ran, removed) = docker.words
    assert removed == ["rm", "--force", ran[3]]


def test_a_container_is_removed_when_its_task_times_out(with_stand_in: MakeStandIn) -> None:
    runtime, docker = with_stand_in("docker", DOCKER.format(run="time.sleep(60)"))
    assert run(a_lease("docker", "alpine"), runtime, limit_seconds=0.5).reason == "timed-out"
    assert docker.words[-1][:2] == ["rm", "--force"]


def test_containers_are_removed_when_the_worker_is_killed(with_stand_in: MakeStandIn) -> None:
    runtime, docker = with_stand_in("docker", DOCKER.format(run="time.sleep(60)"))
    ended: list[Result] = []
    thread = threading.Thread(target=lambda: ended.append(run(a_lease("docker", "alpine"), runtime)))
    thread.start()
    set_when_written(docker.calls_path).wait(20)
    process.kill_all()
    thread.join(20)
    assert ended[0].reason == "killed by signal 9"
    assert ["rm", "--force", docker.words[0][3]] in docker.words


def test_the_exit_code_of_a_container_decides_the_outcome(with_stand_in: MakeStandIn) -> None:
    for code, outcome in ((42, "failed-permanent"), (75, "rejected"), (125, "failed"), (7, "failed")):
        runtime, _ = with_stand_in("docker", DOCKER.format(run=f"sys.exit({code})"))
        result = run(a_lease("docker", "alpine"), runtime)
        assert (result.outcome, result.exit_code) == (outcome, code)


def test_a_task_is_rejected_if_the_docker_engine_does_not_respond(with_stand_in: MakeStandIn) -> None:
    no_daemon = "sys.exit('Cannot connect to the daemon') if sys.argv[1] == 'version' else sys.exit(125)"
    runtime, docker = with_stand_in("docker", no_daemon)
    result = run(a_lease("docker", "alpine"), runtime)
    assert result.outcome == "rejected"
    assert result.reason == "the docker engine of this worker does not respond: Cannot connect to the daemon"
    assert [words[0] for words in docker.words] == ["run", "version"]


@pytest.mark.skipif(not shutil.which("docker"), reason="docker is not installed")
def test_a_task_is_rejected_by_the_real_docker_without_an_engine(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    result = run(a_lease("docker", "alpine true"), runtime)
    assert result.outcome == "rejected"
    assert (result.reason or "").startswith("the docker engine of this worker does not respond: ")


def test_variables_of_the_env_file_must_be_a_single_line(with_stand_in: MakeStandIn) -> None:
    runtime, docker = with_stand_in("docker")
    result = run(a_lease("docker", "alpine", environ={"PATH": "a\nb"}), runtime)
    assert (result.outcome, result.reason) == (
        "failed-permanent",
        "the environment variable 'PATH' must be a single line for docker",
    )
    assert not docker.calls_path.exists()


# Process groups


def test_process_groups_created_by_a_program_are_ended(runtime: Runtime, tmp_path: Path) -> None:
    """`timeout` creates its own group, as does a shell with job control."""
    pid = tmp_path / "pid"
    content = (
        f"timeout 60 sh -c 'echo $$ > {pid}.new; mv {pid}.new {pid}; while :; do sleep 0.05; done'; echo"
    )
    result = execute(a_lease(content=content), runtime, set_when_written(pid))
    assert result.reason == "discarded"
    assert gone(int(pid.read_text()))


def test_background_jobs_in_other_groups_end_with_the_task(runtime: Runtime, tmp_path: Path) -> None:
    result = run(a_lease(content=f"set -m; sleep 60 & echo $! > {tmp_path}/pid"), runtime)
    assert result.outcome == "success"
    assert gone(int((tmp_path / "pid").read_text()))
