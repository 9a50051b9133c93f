"""Tiles of which the model says what was measured."""

from collections.abc import Sequence
from math import prod

from tritonc.tune.model.feature import Profile, between, is_padded

# Results of a cluster: larger tiles, whose sums take longer on their way, were slower than the
# model says (128 x 128: int8_linear of 128 rows 16 to 20 us, 15 by 128 x 64; conv_nchw of 14 x 14).
# Of convolutions 64 x 64, 64 x 128 and 128 x 64 by clusters of two were measured.
MOST_SENT, LEAST_SENT = 128 * 64, 64
# Rows of a cluster between powers of two.  e4m3 weights, 300 x 4096 x 4096 by 128 x 128 32.7 us, by
# 160 x 128 in clusters of two 23.8 (the model says 23), 192 31.1 (28), 224 39.2: what the last tile
# lacks takes the longest block, and the model takes it for a mean of all.
MOST_BETWEEN = 160
LEAST_WGMMA = 64  # a side of a tile on wgmma: 64 x 32 is slower than the model says


def is_measured(profile: Profile, tile: Sequence[int], blocks: int) -> bool:
    """Whether clusters of so many blocks are known to do what the model says, of a convolution; and
    blocks of a tile between powers of two."""
    if is_padded(profile) and not between(profile):
        return False
    if blocks > 1 and prod(tile) > MOST_SENT and any(f.scaled for f in profile):
        return False
    if blocks > 1 and is_padded(profile) and max(tile) > MOST_BETWEEN:
        return False
    return blocks == 1 or not any(f.computed or f.flat for f in profile if f.kind == "dot") or (
        blocks == 2 and min(tile) >= LEAST_SENT and prod(tile) <= MOST_SENT)
