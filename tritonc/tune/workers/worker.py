"""A process that runs jobs for `workers.Workers`: python -m tritonc.tune.workers.worker

It reads pickles from standard input and answers each on standard output.  First comes the search
path for modules, then `(set_up, arguments)`, whose result is the state of this process, then jobs
`(function, argument)`, which are run as `function(state, argument)`.  Answers are `(True, value)`
or `(False, text)`; after the latter the process ends, as what went wrong may have broken the state
(a CUDA context stays broken).  It ends, in the middle of a job too, when its input does: so it
never outlives who started it."""

import os
import pickle
import signal
import sys
import threading
from queue import SimpleQueue
from typing import IO, Any


def main() -> None:
    """Answer until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's ^C is for who started us
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a job prints must not come between
    requests: SimpleQueue[bytes] = SimpleQueue()
    source = sys.stdin.buffer
    sys.path[:] = pickle.loads(read_frame(source))
    threading.Thread(target=_listen, args=(source, requests), daemon=True).start()
    try:
        set_up, arguments = pickle.loads(requests.get())
        state = set_up(*arguments)
        write_frame(answers, (True, None))
        while True:
            function, argument = pickle.loads(requests.get())
            write_frame(answers, (True, function(state, argument)))
    except Exception as error:
        write_frame(answers, (False, _text(error)))
        os._exit(1)  # without clean-up, which may hang on a broken context


def _text(error: Exception) -> str:
    """The message of a CompileError, or the kind and text of another."""
    diagnostics = getattr(error, "diagnostics", None)
    return str(diagnostics[0].message) if diagnostics else f"{type(error).__name__}: {error}"


def _listen(source: IO[bytes], requests: SimpleQueue[bytes]) -> None:
    while True:
        frame = read_frame(source)
        if not frame:
            os._exit(1)
        requests.put(frame)


def read_frame(source: IO[bytes]) -> bytes:
    """One pickle's bytes; empty at the end of the input."""
    head = source.read(8)
    size = int.from_bytes(head, "little")
    content = source.read(size) if len(head) == 8 else b""
    return content if len(content) == size else b""


def write_frame(target: IO[bytes], value: Any) -> None:
    content = pickle.dumps(value)
    target.write(len(content).to_bytes(8, "little") + content)
    target.flush()


if __name__ == "__main__":
    main()
