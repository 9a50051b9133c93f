"""Convolutions of images that lie plane by plane, at random: taps that share whole accesses."""

from __future__ import annotations

import pytest
import random_planes
import random_products


@pytest.mark.parametrize("seed", range(8))
def test_planes(seed: int) -> None:
    random_products.check(random_planes.planes(seed), threads=seed % 3 == 0)
