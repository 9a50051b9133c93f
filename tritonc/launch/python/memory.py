"""Memory for variants whose blocks add up in it (`backend.launch.sum_in_memory`), from torch.

It begins with tickets, which are zero before and after each launch."""

import sys
from typing import Any

from tritonc.launch import cuda_driver
from tritonc.variants.choice import MOST_IN_MEMORY as TICKETS

WORKSPACE = {"name": "workspace", "type": "float *", "access": "read write", "multiple_of": 16}


class Memory:
    """What launches of one variant use: each stream has its own, and so has each launch that a
    graph captures, where the graph clears the tickets."""

    def __init__(self) -> None:
        self.kept: dict[tuple[int, int], Any] = {}
        self.outgrown: list[Any] = []  # which earlier launches may still use

    def of(self, stream: int, tensor: Any, floats: int) -> Any:
        """A tensor for sums of so many floats, on the device of an argument; None where that is
        not torch's, or a stream captures that is not torch's current one."""
        torch: Any = sys.modules.get("torch")
        if torch is None or not isinstance(tensor, torch.Tensor):
            return None
        device, count = tensor.get_device(), TICKETS + floats
        driver = cuda_driver.open_driver()
        capturing = cuda_driver.values(driver, "ask a stream", driver.cuStreamIsCapturing(stream))
        if int(capturing):
            current = torch.cuda.current_stream(device).cuda_stream == stream
            return _made(torch, device, count) if current else None
        found = self.kept.get((device, stream))
        if found is None or found.numel() < count:
            if found is not None:
                self.outgrown.append(found)
            found = self.kept[device, stream] = _made(torch, device, 1 << (count - 1).bit_length())
            torch.cuda.current_stream(device).synchronize()
        return found


def _made(torch: Any, device: int, count: int) -> Any:
    found = torch.empty(count, dtype=torch.float32, device=f"cuda:{device}")
    found[:TICKETS].zero_()
    return found
