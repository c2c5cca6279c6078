"""Scripted AWE clients of both generations, written from the description of the protocol alone."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import subprocess
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.awe.wire import Files, Response, fetch, send

IDLE = ("Server queue is empty", "No eligible workunit found", "Server queue is suspended")
Workunit = dict[str, Any]


@dataclass
class AweClient:
    """What the generations share: `url` is the address of `/awe`, `programs` a folder for PATH."""

    url: str
    token: str
    group: str
    folder: Path
    programs: Path
    apps: tuple[str, ...] = ("*",)
    name: str = "client"
    id: str = ""
    server_uuid: str = ""
    work: list[str] = field(default_factory=list)
    """The ids of the workunits that it holds."""

    def call(self, method: str, path: str, files: Files | None = None, document: Any = None) -> Response:
        authorization = f"CG_TOKEN {self.token}"
        return send(method, f"{self.url}{path}", token=authorization, files=files, document=document)

    def profile(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "group": self.group,
            "user": "",
            "host": "127.0.0.1",
            "domain": "default-domain",
            "CPUs": 2,
            "apps": list(self.apps),
            "idle_time": 0,
            "Status": "active-idle",
            "some_field_of_a_newer_release": {"a": [1]},
        }

    def register(self) -> dict[str, Any]:
        text = json.dumps(self.profile()).encode()
        answer: dict[str, Any] = self.call("POST", "/client", {"profile": ("profile", text)}).data
        self.registered(answer)
        return answer

    def registered(self, answer: dict[str, Any]) -> None:
        raise NotImplementedError

    def heartbeat(self) -> dict[str, Any]:
        raise NotImplementedError

    def checkout_path(self) -> str:
        raise NotImplementedError

    def work_path(self, work_id: str) -> str:
        raise NotImplementedError

    def status_of(self, exit_code: int) -> str:
        raise NotImplementedError

    def checkout(self) -> Workunit | str:
        """A workunit, or the error that the server answers."""
        response = self.call("GET", self.checkout_path())
        if response.status != 200:
            return response.error
        work: Workunit = response.data
        self.work.append(work["id"])
        return work

    def take(self, seconds: float = 20) -> Workunit:
        """Poll until there is a workunit. Real clients wait ten seconds between polls."""
        end = time.monotonic() + seconds
        while True:
            work = self.checkout()
            if not isinstance(work, str):
                return work
            assert work in IDLE, work
            assert time.monotonic() < end, work
            time.sleep(0.1)

    def data_token(self, work: Workunit) -> str:
        """The value of the Authorization header for the files of a workunit."""
        if not work["info"].get("auth"):
            return f"CG_TOKEN {self.token}"
        answer = self.call("GET", f"{self.work_path(work['id'])}?datatoken&client={self.id}")
        assert answer.status == 200, answer
        token = answer.headers["datatoken"]
        return token if " " in token else f"OAuth {token}"

    def private_environment(self, work: Workunit) -> dict[str, str]:
        if not work["cmd"].get("has_private_env"):
            return {}
        answer = self.call("GET", f"{self.work_path(work['id'])}?privateenv&client={self.id}")
        assert answer.status == 200, answer
        found: dict[str, str] = json.loads(answer.headers["privateenv"])
        return found

    def run(self, work: Workunit) -> str:
        """Process a workunit from its inputs to its report; return the status that was reported."""
        home = self.folder / work["id"]
        shutil.rmtree(home, ignore_errors=True)  # of an earlier attempt
        home.mkdir(parents=True)
        token = self.data_token(work)
        self._fetch_files(work, home, token)
        started = time.monotonic()
        environ = {**os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}"}
        environ |= work["cmd"]["environ"].get("public") or {}
        environ |= self.private_environment(work)
        done = subprocess.run(
            [work["cmd"]["name"], *self._arguments(work, home)],
            cwd=home,
            env=environ,
            capture_output=True,
            timeout=60,
        )
        status = self.status_of(done.returncode)
        if status == "done" and not self._store_outputs(work, home, token):
            status = "fail"
        self.report(work["id"], status, done.stdout, done.stderr, compute=time.monotonic() - started)
        return status

    def report(
        self, work_id: str, status: str, stdout: bytes = b"", stderr: bytes = b"", compute: float = 0
    ) -> Response:
        """Report a workunit with its logs; empty ones are left out."""
        perf = json.dumps({"queued": 0, "done": int(time.time()), "runtime": int(compute)}).encode()
        notes = b"" if status == "done" else f"the command failed on {self.name}".encode()
        logs = {"perf": perf, "stdout": stdout, "stderr": stderr, "worknotes": notes}
        files = {name: (name, content) for name, content in logs.items() if content}
        query = f"status={status}&client={self.id}&computetime={int(compute)}&report"
        answer = self.call("PUT", f"{self.work_path(work_id)}?{query}", files)
        if work_id in self.work:
            self.work.remove(work_id)
        return answer

    def _fetch_files(self, work: Workunit, home: Path, token: str) -> None:
        for file in work["predata"] or []:
            plain = file["node"] == "-"
            (home / file["filename"]).write_bytes(fetch(_address(file), "" if plain else token))
        for file in work["inputs"] or []:
            address = _address(file)
            if work["rank"] > 0 and work["part"]["input"] == file["filename"]:
                address += f"&index={work['part']['index']}&part={_part(work)}"
            (home / file["filename"]).write_bytes(fetch(address, token))

    def _arguments(self, work: Workunit, home: Path) -> list[str]:
        command = work["cmd"]
        words = shlex.split(command["args"]) if command.get("args") else command.get("args_array") or []
        names = {file["filename"] for file in work["inputs"] or []}

        def path(found: re.Match[str]) -> str:
            return str(home / found[1]) if found[1] in names else found[0]

        words = [re.sub(r"@([\w.-]+)", path, word) for word in words]
        return [re.sub(r"\$\{(\w+)\}", lambda found: os.environ.get(found[1], ""), word) for word in words]

    def _store_outputs(self, work: Workunit, home: Path, token: str) -> bool:
        for file in work["outputs"] or []:
            path = home / file["filename"]
            if not path.exists():
                return bool(file.get("optional"))
            if file.get("nonzero") and not path.stat().st_size:
                return False
            name = file.get("shockfilename") or file["filename"]
            form = {"upload" if work["rank"] == 0 else str(work["rank"]): (name, path.read_bytes())}
            if file.get("attrfile") and (home / file["attrfile"]).exists() and work["rank"] < 2:
                form["attributes"] = (file["attrfile"], (home / file["attrfile"]).read_bytes())
            node = f"{file['host']}/node" + (f"/{file['node']}" if file.get("node") not in ("", "-") else "")
            made = send("PUT" if file.get("node") not in ("", "-") else "POST", node, token=token, files=form)
            if file.get("shockindex") and work["rank"] == 0:
                index = f"{file['host']}/node/{made.data['id']}/index/{file['shockindex']}"
                send("PUT", index, token=token, files={})
        return True


class Client09(AweClient):
    """`awe-client` 0.9: adopts the id that the server gives, and beats with GET."""

    def registered(self, answer: dict[str, Any]) -> None:
        self.id = answer["id"]

    def heartbeat(self) -> dict[str, Any]:
        answer = self.call("GET", f"/client/{self.id}?heartbeat")
        return answer.data if answer.status == 200 else {"error": answer.error}

    def checkout_path(self) -> str:
        return f"/work?client={self.id}&available=100000000000"

    def work_path(self, work_id: str) -> str:
        return f"/work/{work_id}"

    def status_of(self, exit_code: int) -> str:
        return "done" if exit_code == 0 else "fail"


@dataclass
class Worker20(AweClient):
    """`awe-worker` 2.0: keeps its own id, sends the server's uuid, and encodes the ids of workunits."""

    id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def registered(self, answer: dict[str, Any]) -> None:
        self.server_uuid = answer["server_uuid"]

    def heartbeat(self) -> dict[str, Any]:
        state = {
            "healthy": True,
            "error_message": "",
            "busy": bool(self.work),
            "current_work": {"data": self.work},
        }
        answer = self.call("PUT", f"/client/{self.id}?heartbeat", document=state)
        return answer.data if answer.status == 200 else {"error": answer.error}

    def checkout_path(self) -> str:
        return f"/work?client={self.id}&available=100000000000&server_uuid={self.server_uuid}"

    def work_path(self, work_id: str) -> str:
        return f"/work/base64:{base64.b64encode(work_id.encode()).decode()}"

    def status_of(self, exit_code: int) -> str:
        return {0: "done", 42: "failed-permanent"}.get(exit_code, "fail")


GENERATIONS = (Client09, Worker20)


def _address(file: dict[str, Any]) -> str:
    if file.get("url") and file.get("node") in ("-", "", None):
        return str(file["url"])
    return f"{file['host']}/node/{file['node']}?download"


def _part(work: Workunit) -> str:
    """The index units of a rank: as even as can be, the larger parts first."""
    total, count, rank = work["part"]["totalindex"], work["totalwork"], work["rank"]
    each, more = divmod(total, count)
    first = (rank - 1) * each + min(rank - 1, more) + 1
    return f"{first}-{first + each - (0 if rank <= more else 1)}"
