"""Random kernels before and after the passes of the backend."""

from __future__ import annotations

from random import Random

import pytest
from random_backend import RandomKernel
from sketch import same
from test_backend_passes import lowered


def survives(seed: int, odd: bool) -> None:
    """The kernel of a seed means the same, every fourth after each pass, and has no race."""
    random = Random(seed)
    program = RandomKernel(random, odd).program(random.randint(2, 9))
    target = random.choice(["sm_75", "sm_80", "sm_90a"])
    done = lowered(program, check=seed % 4 == 0, target=target, level=seed % 3)
    same(program.run(check=False), done.run())


# After the first seeds come some that found something once.
@pytest.mark.parametrize("seed", [*range(40), 2104])
def test_powers_of_two(seed: int, thorough: bool) -> None:
    if seed % 2 and not thorough:
        pytest.skip("needs --thorough")
    survives(seed, odd=False)


@pytest.mark.parametrize("seed", [*range(1000, 1025), 2175])
def test_odd_extents(seed: int, thorough: bool) -> None:
    if seed % 2 == 0 and not thorough:
        pytest.skip("needs --thorough")
    survives(seed, odd=True)
