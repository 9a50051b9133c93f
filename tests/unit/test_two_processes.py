"""A fork goes through some entries of a kernel; whatever becomes of it, the PTX is the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock, patch

from tritonc import two_processes
from tritonc.ir.core import Kernel

SAMPLES = Path(__file__).parents[2] / "samples"
SCRIPT = '''
import errno, os, sys
from pathlib import Path
from unittest.mock import Mock, patch

from tritonc import driver, two_processes
from tritonc.options import Options
from tritonc.source import SourceFile

def compiled(name, **more):
    path = Path(sys.argv[1]) / name
    options = Options(arch="sm_90a", small_clusters=True, **more)
    with patch.object(two_processes, "possible", lambda: True):
        return driver.compile(SourceFile(name, path.read_text()), options, ("ptx",)).outputs["ptx"]

def ends(*_):
    os._exit(1)

def writes_half(made, sink):
    sink.write(b"half")
    sink.flush()
    os._exit(1)

for name in ("matmul.tc", "cross_entropy.tc"):  # of which the PTX is made ahead, and of which not
    alone = compiled(name)
    with patch.object(two_processes, "unflat", Mock(wraps=two_processes.unflat)) as taken:
        assert compiled(name, alone=True) == alone
        assert taken.called
for fault in (patch.object(two_processes, "flat", ends),
              patch.object(two_processes, "flat", Mock(side_effect=MemoryError)),
              patch.object(two_processes.pickle, "dump", writes_half),
              patch.object(os, "fork", Mock(side_effect=OSError(errno.EAGAIN, "no more")))):
    with fault:
        assert compiled(name, alone=True) == alone
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
        two_processes.share(kernels, {kernel.name for kernel in kernels}, done.append,
                            Mock(), {}, Mock())
    assert done == kernels
