"""A program that tries to read a secret out of its parent process; it prints what each way gave, as JSON.

It uses the standard library only, because it runs as a task of a worker and as any user.
"""

import ctypes
import errno
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress

PARENT = os.getppid()
_SEIZE, _VM_READ, _PIDFD_OPEN, _PIDFD_GETFD = 0x4206, 310, 434, 438
_libc = ctypes.CDLL(None, use_errno=True)


class _Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def _read(name: str) -> bytes:
    with open(f"/proc/{PARENT}/{name}", "rb") as file:
        return file.read()


def _writable_areas() -> list[tuple[int, int]]:
    lines = [line.split() for line in _read("maps").decode().splitlines()]
    areas = [[int(end, 16) for end in line[0].split("-")] for line in lines if line[1].startswith("rw")]
    return [(first, last) for first, last in areas]


def _memory() -> bytes:
    found = b""
    with open(f"/proc/{PARENT}/mem", "rb", 0) as file:
        for first, last in _writable_areas():
            file.seek(first)
            found += file.read(last - first)
    return found


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _vm_read() -> bytes:
    buffer = ctypes.create_string_buffer(64)
    local, remote = _Vector(ctypes.addressof(buffer), 64), _Vector(id(None), 64)
    _checked(_libc.process_vm_readv(PARENT, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))
    return buffer.raw


def _attach() -> bytes:
    _checked(_libc.ptrace(_SEIZE, PARENT, None, None))
    return b"attached"


def _open_files() -> bytes:
    folder = f"/proc/{PARENT}/fd"
    return " ".join(os.readlink(f"{folder}/{name}") for name in os.listdir(folder)).encode()


def _take_file() -> bytes:
    handle = _checked(_libc.syscall(_PIDFD_OPEN, PARENT, 0))
    _checked(_libc.syscall(_PIDFD_GETFD, handle, 2, 0))
    return b"taken"


def _own_environment() -> bytes:
    return "\n".join(os.environ.values()).encode()


def _inherited_files() -> bytes:
    """The files that this program has besides its standard streams; no access if there are none."""
    names = [name for name in os.listdir("/proc/self/fd") if int(name) > 2]
    links = [
        os.readlink(f"/proc/self/fd/{name}") for name in names if os.path.exists(f"/proc/self/fd/{name}")
    ]
    if not links:
        raise PermissionError("no inherited files")
    return " ".join(links).encode()


def _every_process() -> bytes:
    """The environments and command lines of all processes, as far as they can be read."""
    found = b""
    for number in filter(str.isdecimal, os.listdir("/proc")):
        for name in ("environ", "cmdline"):
            with suppress(OSError), open(f"/proc/{number}/{name}", "rb") as file:
                found += file.read()
    return found


WAYS: dict[str, Callable[[], bytes]] = {
    "inherited files": _inherited_files,  # the first one, because others open files
    "environ": lambda: _read("environ"),
    "cmdline": lambda: _read("cmdline"),
    "mem": _memory,
    "process_vm_readv": _vm_read,
    "ptrace": _attach,
    "fd": _open_files,
    "pidfd_getfd": _take_file,
    "own environment": _own_environment,
    "every process": _every_process,
}


def spy(secret: bytes) -> dict[str, str]:
    """`secret` if the way showed it, `readable` if it worked without the secret, `denied` otherwise."""
    found = {}
    for name, way in WAYS.items():
        try:
            found[name] = "secret" if secret in way() else "readable"
        except PermissionError:
            found[name] = "denied"
        except OSError as error:
            if error.errno != errno.EFAULT:  # allowed, but there is nothing at this address
                raise
            found[name] = "readable"
    return found


if __name__ == "__main__":
    print(json.dumps(spy(sys.argv[1][::-1].encode())))
