"""Captures by forks of one process that has loaded torch: to load it takes a capture alone four seconds.

The subprocess of a capture job asks that process for a fork, whose messages the job reads. The limits of the job
(memory, time, processes that it leaves) hold for the subprocess alone, so tests of these limits use no forks.
"""

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_SECONDS = 60  # of the processor, that one may take; by the clock ten times as long: others may be at work


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, ...]]:
    """The command of a capture, but for what is captured."""
    place = str(folder / "captures")
    environment = {"PYTHONPATH": str(_ROOT), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-P", __file__, place], env=os.environ | environment)
    try:
        end = time.monotonic() + 120.0
        while not os.path.exists(place):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        yield sys.executable, "-I", "-S", __file__, place
    finally:
        process.terminate()
        process.wait()


def _serve(place: str) -> None:
    """Load everything, then fork for each that asks."""
    sys.dont_write_bytecode = True  # in the cache of a test is what it puts there
    import torch

    from analysis.capture import torch_settings, user_model
    from analysis.model.process import child

    torch_settings.import_torchvision()
    user_model.capture_module(torch.nn.Linear(2, 2), torch.zeros(1, 2), 0, "warm")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()  # a fork that looks for garbage among these would copy them all
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place + ".new")
        listening.listen()
        os.rename(place + ".new", place)
        while True:
            asking = listening.accept()[0]
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listening.close()
                words, pipes, *_ = socket.recv_fds(asking, 1 << 20, 2)
                folder, variables, *arguments = json.loads(words)
                pid = os.fork()
                if pid:
                    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    with suppress(OSError):  # its job ends who asked as soon as there is an answer
                        asking.send(bytes([code & 255]))
                    os._exit(0)
                asking.close()
                signal.setitimer(signal.ITIMER_PROF, _SECONDS)
                signal.alarm(10 * _SECONDS)
                os.chdir(folder)
                os.environ.clear()
                os.environ.update(variables)
                sys.path[:0] = [path for path in variables.get("PYTHONPATH", "").split(":") if path not in sys.path]
                pipe, output = pipes
                for number, stream in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
                    os.dup2(stream, number)
                os._exit(child.answer(pipe, *arguments))
            asking.close()


def _ask(place: str, pipe: int, _parent: str, _limits: str, *words: str) -> int:
    """Ours are its pipe, folder and environment; the exit code is that of the capture."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(place)
        socket.send_fds(asking, [json.dumps((os.getcwd(), dict(os.environ), *words)).encode()], [pipe, 2])
        os.close(pipe)
        return (asking.recv(1) or b"\1")[0]


if __name__ == "__main__":
    if len(sys.argv) == 2:
        _serve(sys.argv[1])
    sys.exit(_ask(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
