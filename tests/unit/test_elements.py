"""Elements of tiles that only ranges and constants make."""

from __future__ import annotations

from rewriting import parse

from tritonc.analysis.elements import Elements

TEXT = """kernel @k(i32 %x, i32* %out) {
entry:
  %r = range {start = 0, stop = 16} : i32<16>
  %e = constant {value = 8} : i32<16>
  %m = urem %r, %e : i32<16>
  %f = constant {value = 4} : i32<16>
  %s = mul %m, %f : i32<16>
  %column = reshape %s : i32<16, 1>
  %wide = broadcast %column : i32<16, 4>
  %turned = trans %wide {permutation = [1, 0]} : i32<4, 16>
  %xs = splat %x : i32<16>
  %unknown = add %r, %xs : i32<16>
  ret
}
"""


def test_shifts_of_nibbles() -> None:
    made = {op.result.name: op.result for op in parse(TEXT).ops() if op.results}
    known = Elements()
    assert [known.at(made["s"], (k,)) for k in range(9)] == [0, 4, 8, 12, 16, 20, 24, 28, 0]
    assert known.at(made["wide"], (3, 2)) == known.at(made["turned"], (2, 3)) == 12
    assert known.at(made["unknown"], (0,)) is None
