"""The tuner on a real GPU, where some candidates hang, fault, or end their process."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tritonc.options import NATIVE, Options
from tritonc.source import Diagnostics, SourceFile
from tritonc.tune import tuning_file
from tritonc.tune.search import task as tasks
from tritonc.tune.search import tuner
from tritonc.tune.timing.bench import bench
from tritonc.tune.timing.cuda_device import CudaDevice
from tritonc.tune.workers.jobs import Code
from tritonc.tune.workers.sites import local_gpus

pytestmark = pytest.mark.gpu
ADD = """\
//! size: N = 1000
//! range: N
//! arg: x = randn(N)
//! arg: y = randn(N)
//! arg: n = N
//! expect: y = x + 1
//! bench: N = 1 << 20
//! flops: N
//! bytes: 8 * N
const tunable int T = {512, 1024};
kernel void add(float* x, float* y, int n) {
  int r[T] = get_global_range(0);
  @(r < n) *(y + r) = *(x + r) + 1;
}
"""
_HEAD = """.version 7.0
.target sm_75
.address_size 64
.visible .entry add(.param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .u64 %a; .reg .u32 %r;
"""
HANG = _HEAD + """  ld.param.u64 %a, [x];
AGAIN:
  ld.volatile.global.u32 %r, [%a];
  bra AGAIN;
}
"""
FAULT = _HEAD + """  mov.u64 %a, 16;
  mov.u32 %r, 1;
  st.global.u32 [%a], %r;
  ret;
}
"""


class FaultyGpu(CudaDevice):
    """Of the candidates with `num_warps`, those of 1 hang, of 2 fault, of 16 end the process."""

    def check(self, code: Code, size: Mapping[str, int]) -> tuple[list[str], float]:
        match code.binding.get("num_warps"):
            case 1:
                code = code._replace(image=HANG.encode(), digest="hang")
            case 2:
                code = code._replace(image=FAULT.encode(), digest="fault")
            case 16:
                os.abort()
        return super().check(code, size)


def test_faults_cost_their_candidates(tmp_path: Path) -> None:
    found = local_gpus([0], 2, 3.0)
    assert found is not None
    site = replace(found, open_device=FaultyGpu)
    request = tasks.Request(SourceFile("add.tc", ADD), Options(tune={"T": 1024}),
                            str(tmp_path / "add.tune.json"))
    task = tasks.prepare(request, site.target, Diagnostics())
    out = io.StringIO()
    (choice,) = tuner.tune(request, task, site, out)
    told = out.getvalue()
    assert choice.best.get("num_warps", 4) in (4, 8)
    assert "took longer than 3 s" in told and "signal 6" in told and "illegal" in told, told
    again = tuner.tune(request, task, site, io.StringIO())
    assert [c.size for c in again] == [choice.size]


def test_killing_it_ten_times_loses_nothing(tmp_path: Path) -> None:
    """At random moments of a search of thousands; what was measured once stays so."""
    sample = Path(__file__).parent.parent / "samples" / "matmul.tc"
    (tmp_path / "matmul.tc").write_text(sample.read_text())
    command = [sys.executable, "-c", "from tritonc.cli.main import main; main()",
               "tune", "matmul.tc",
               "--set", "M=256,N=256,K=256", "--jobs", "2", "--devices=0", "--tune=num_warps=8",
               "--tune=min_blocks=0"]
    chance = random.Random(11)
    journal = tmp_path / "matmul.tune.journal"
    journal.touch()
    known: dict[str, str] = {}
    counts = []
    for _ in range(10):
        size = journal.stat().st_size
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        while journal.stat().st_size == size and process.poll() is None:
            time.sleep(0.01)
        time.sleep(chance.random())
        assert process.poll() is None, process.returncode
        process.kill()
        process.wait()
        whole, _, _ = journal.read_text().rpartition("\n")
        lines = [line for line in whole.split("\n") if line.endswith("}")]
        found = {json.dumps([row["size"], row["candidate"]]): line for line in lines
                 if (row := json.loads(line))}
        assert known.items() <= found.items()
        assert len(found) == len(lines), "measured again"
        counts.append(len(known := found))
    assert len(set(counts)) == 10, counts
    done = subprocess.run([*command, "--budget", "1"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "are measured already" in done.stderr
    assert len(tuning_file.read(str(tmp_path / "matmul.tune.json"))) == 1


def test_bench() -> None:
    (line,) = bench(SourceFile("add.tc", ADD), Options(arch=NATIVE), [], None, 0, 0,
                    Diagnostics())
    assert line.ok and "GB/s" in line.text, line.text
