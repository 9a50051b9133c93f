"""What PTX is rewritten to for ptxas, where a test of a kernel would not find the place."""

from tritonc.backend.ptxas_faults import choose_words


def test_a_sum_that_a_vector_load_sets_is_another() -> None:
    lines = ["\twgmma.mma_async.sync {%r1, %r2}, %rd1, %rd2;", "\tcvt.rn.f16.f32 \t%rs1, %r1;",
             "\tld.global.v2.b32 \t{%r3, %r1}, [%rd3];", "\tselp.b16 \t%rs2, %rs1, 0x0000, %p1;"]
    assert choose_words("\n".join(lines)) == "\n".join(lines)
    assert "selp.b32 c, %r1, 0x00000000, %p1;" in choose_words("\n".join([*lines[:2], lines[3]]))
