"""What threads wrote reaches wgmma, TMA loads and stores by a fence and a barrier behind it."""

from __future__ import annotations

import pytest

from tritonc.backend.shared.insert_barriers import _flying, _progress
from tritonc.backend.shared.pending import Pending, conflict
from tritonc.ir.build import make_op
from tritonc.ir.core import Kernel

KERNEL = Kernel("k", [], [])
WRITE = Pending(True, 0, 64)
READERS = {
    "thread": Pending(False, 0, 64), "wgmma": Pending(False, 0, 64, flight="wgmma"),
    "tma_store": Pending(False, 0, 64, flight="store", alone=True),
    "tma_load": Pending(True, 0, 64, alone=True, copies=True),
}  # fmt: skip


@pytest.mark.parametrize("between, threads, proxy", [
    ((), False, False),
    (("proxy_fence",), False, False),
    (("barrier",), True, False),
    (("barrier", "proxy_fence"), True, False),
    (("proxy_fence", "barrier"), True, True),
    (("barrier", "proxy_fence", "barrier"), True, True),
])
def test_who_sees_a_write(between: tuple[str, ...], threads: bool, proxy: bool) -> None:
    state = frozenset({WRITE})
    for name in between:
        state = _flying(state) if name == "barrier" else _progress(make_op(name, []), state)
    for name, reader in READERS.items():
        seen = not any(conflict(KERNEL, old, reader) for old in state)
        assert seen == (threads if name == "thread" else proxy), name
