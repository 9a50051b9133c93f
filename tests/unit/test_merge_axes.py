"""Products whose rows are several axes in memory: programs at random, by the simulators."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

import random_products


@pytest.mark.parametrize("seed", range(12))
def test_patches(seed: int) -> None:
    random_products.check(random_products.patch(seed), threads=seed % 3 == 0)
