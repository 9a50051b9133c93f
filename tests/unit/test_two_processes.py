"""A fork goes through some kernels and entries; whatever becomes of it, the PTX is the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock, patch

from tritonc import two_processes
from tritonc.ir.core import Kernel

SAMPLES = Path(__file__).parents[2] / "samples"
SCRIPT = '''
import errno, os, signal, sys
from pathlib import Path
from unittest.mock import Mock, patch

from tritonc import driver, two_processes
from tritonc.options import Options
from tritonc.source import SourceFile

def compiled(name, dump=None, **more):
    source = SourceFile(name, (Path(sys.argv[1]) / name).read_text())
    options = Options(**{"arch": "sm_90a", "small_clusters": True, **more})
    with patch.object(two_processes, "possible", lambda: True):
        found = driver.compile(source, options, ("ptx",), dump=dump)
    places = [(one.message, one.span and (one.span.file is source, one.span.start))
              for one in found.remarks]
    return found.outputs["ptx"], places

def ends(*_):
    os._exit(1)

def writes_half(made, sink, files):
    sink.write(b"half")
    sink.flush()
    os._exit(1)

# Of which the PTX is made ahead, and of which not; two kernels without entries.
for name, entries in (("attention.tc", True), ("attention_backward.tc", False),
                      ("cross_entropy.tc", True)):
    alone = compiled(name, small_clusters=entries)
    with patch.object(two_processes, "unflat", Mock(wraps=two_processes.unflat)) as taken:
        assert compiled(name, alone=True, small_clusters=entries) == alone
        assert taken.called
for fault in (patch.object(two_processes, "flat", ends),
              patch.object(two_processes, "flat", Mock(side_effect=MemoryError)),
              patch.object(two_processes, "_send", writes_half),
              patch.object(os, "fork", Mock(side_effect=OSError(errno.EAGAIN, "no more")))):
    with fault:
        assert compiled(name, alone=True) == alone
shown, again = [], []
for here, titles in ((False, shown), (True, again)):
    compiled(name, lambda title, _: titles.append(title), alone=here, print_after=("coarsen",))
assert shown and again == shown, (shown, again)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as `trap "" CHLD` has it
assert compiled(name, alone=True) == alone
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("nothing is left")
'''


def test_a_fork_changes_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(SAMPLES)], capture_output=True,
                          text=True)
    assert (done.stdout, done.stderr) == ("nothing is left\n", "")


def test_more_entries_than_a_byte_counts() -> None:
    """They are run by one process."""
    done: list[Kernel] = []
    kernels = [Kernel(f"k{i}", [], []) for i in range(300)]
    with patch.object(two_processes, "possible", lambda: True):
        two_processes.share(kernels, kernels, done.append, Mock(), {}, Mock(), Mock())
    assert done == kernels


KILLED = '''
import os, signal
from unittest.mock import Mock, patch
from tritonc import two_processes
from tritonc.ir.core import Block, Kernel

first = os.getpid()

def run(kernel):
    if os.getpid() == first:
        os.kill(first, signal.SIGKILL)

two_processes.possible = lambda: True
two_processes.flat = lambda _: bytes(1 << 20)  # more than a pipe takes
kernels = [Kernel(name, [], [], [Block("b")]) for name in "ab"]
two_processes.share(kernels, kernels[1:], run, Mock(known=lambda _: None), {}, lambda _: True, None)
'''


def test_the_fork_ends_with_the_process() -> None:
    """Whoever waits for the end of the output waited for the fork for ever."""
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, timeout=60)
    assert done.returncode == -9
