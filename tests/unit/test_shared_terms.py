"""Values that are used twice, forty times over, take no time that doubles each time."""

import signal

import pytest

from tritonc.launch.python.api import compile as compile_source

PROGRAMS = {
    "floats": ("float v[128] = x[r & 63], w[128] = v + 1;",
               "{ float t[128] = min(v, w); w = max(v, w) * 0.5f; v = t; }", "@ok y[r] = v + w;"),
    "indices": ("int v[128] = r, w[128] = r + 1;",
                "{ int t[128] = v + w; w = v - w; v = t; }",
                "@(ok && v >= 0 && v < n) y[r] = x[v];"),
    "masks": ("bool v[128] = ok, w[128] = r < n - 5;",
              "{ bool t[128] = v && w; w = v || w; v = t; }", "@v y[r] = 1;"),
    "bounds": ("int v = n, w = n + 1;",
               "{ int t = min(v, w) + 1; w = max(v, w); v = t; }", "@(r < v) y[r] = x[r + w];"),
    "orders": ("int i[8] = get_global_range(1), j[96] = 0 ... 96, k[4] = 0 ... 4;"
               "float v[8, 96] = 1 / (1 + exp(-x[i[:, newaxis] * 96 + j]));",
               "auto t = topk(v + x[j], 4, 1);",
               "y[i[:, newaxis] * 4 + k] = gather(v, t.indices, 1);"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_shared_terms(name: str) -> None:
    begin, step, end = PROGRAMS[name]
    source = ("kernel void f(const float* x, float* y, int n) {\n"
              "  int r[128] = get_global_range(0);\n  bool ok[128] = r < n;\n"
              f"  {begin}\n" + f"  {step}\n" * (40 if step[0] == "{" else 1) + f"  {end}\n}}\n")

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"{name}: more than a minute")
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    try:
        assert compile_source(source, arch="sm_90a", tuning="none").module.ptx
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
