"""Stages of a test's pipeline as forks of one process that has imported torch and transformers.

Importing takes longer than a stage does in miniature. A script gets its arguments, folder,
environment, exit code and a process of its own as from ``python SCRIPT``; nothing of ``pacer`` is
imported before the fork.
"""

import atexit
import json
import os
import runpy
import select
import shlex
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

IMPORTED = ("torch._dynamo", "peft", "accelerate", "transformers.models.auto.modeling_auto")
PYTHON = """\
#!/bin/sh
case "$1" in
*.py) exec {python} -IS {script} {address} "$@" ;;
*) exec {python} "$@" ;;
esac
"""


@contextmanager
def forking_python(folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """Write the program ``python`` into a folder: it runs scripts as forks of a process with this
    environment."""
    names = {"python": sys.executable, "script": __file__, "address": folder / "socket"}
    (folder / "python").write_text(
        PYTHON.format(**{name: shlex.quote(str(path)) for name, path in names.items()})
    )
    (folder / "python").chmod(0o755)
    command = [sys.executable, __file__, str(folder / "socket")]
    with subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None and server.stdout.readline() == "ready\n"
        yield
        server.communicate()


def serve(address: str) -> None:
    """Fork for each connection until standard input ends."""
    for name in IMPORTED:
        import_module(name)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        print("ready", flush=True)
        while sys.stdin not in select.select([sys.stdin, listening], [], [])[0]:
            connection, _ = listening.accept()
            if os.fork() == 0:
                answer(connection)
            connection.close()
    with suppress(ChildProcessError):
        while os.wait():
            pass  # their processor time counts


def answer(connection: socket.socket) -> NoReturn:
    """Run what a connection asks for in another fork, and tell its exit code."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("r") as file:
        request = json.loads(file.readline())
    process = os.fork()
    if process == 0:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        run(**request)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    connection.sendall(f"{code}\n".encode())
    os._exit(0)


def run(arguments: list[str], folder: str, environment: dict[str, str]) -> NoReturn:
    """Become the process of a script."""
    os.chdir(folder)
    before = len(os.environ["PYTHONPATH"].split(os.pathsep))
    os.environ.clear()
    os.environ.update(environment)
    sys.path[: 1 + before] = [
        os.path.dirname(arguments[0]),
        *environment["PYTHONPATH"].split(os.pathsep),
    ]
    sys.argv, code = arguments, 1
    try:
        runpy.run_path(arguments[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def ask(address: str, arguments: list[str]) -> int:
    """Have a script run; its exit code."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [b" "], [0, 1, 2])
        request = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
        connection.sendall((json.dumps(request) + "\n").encode())
        return int(connection.makefile().readline())


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(ask(sys.argv[1], sys.argv[2:]))
    serve(sys.argv[1])
