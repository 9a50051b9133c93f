"""Channels: how what a loop stores to shared memory gets there when a pipeline brings it.

A channel is one store of the loop, and the means by which its data comes ahead of time:

    BOXES      tensor copies (TMA): one thread asks for boxes, whose bytes a barrier counts
    COPIES     cp.async: each thread copies pieces that are contiguous in both memories
    TURNED     cp.async to a buffer of its own, as loaded; the thread that copied an element stores
               it to its place when the iteration ends
    REGISTERS  loads where copies would start, stores when the iteration ends

Each channel of a loop has its own means: what hinders one does not hinder the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from tritonc.backend.pipeline.tensor_access import Strip
from tritonc.ir.core import Op
from tritonc.ir.types import Scalar


class Means(Enum):
    """How data comes to shared memory."""

    BOXES = auto()
    COPIES = auto()
    TURNED = auto()
    REGISTERS = auto()


@dataclass
class Boxes:
    """A tile as boxes of a tensor: `panels` of them side by side along axis 0 of the tensor."""

    load: Op
    element: Scalar  # of the buffer
    strip: Strip
    swizzle: int
    box: tuple[int, int]
    panels: int


@dataclass
class Channel:
    """One store of a loop.  `load`: what copies bring in its place; `boxes`: as such; `turned`: the
    buffer where each thread finds what it loaded."""

    store: Op
    means: Means
    load: Op | None = None
    boxes: Boxes | None = None
    turned: Op | None = None
    why: str = ""  # what hinders copies, where it goes through registers

    @property
    def copied(self) -> bool:
        """Whether cp.async brings it."""
        return self.means in (Means.COPIES, Means.TURNED)

    @property
    def stored(self) -> bool:
        """Whether threads store it, when the iteration ends."""
        return self.means in (Means.TURNED, Means.REGISTERS)
