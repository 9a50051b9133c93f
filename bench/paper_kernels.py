"""The kernels of bench/paper: what their files cannot say, as the suite's tables do.

Sizes and tasks are those of the MAPL 2019 paper (figures 1, 8, 10 and 11, table 1), and products of
2560 beside them.  Peers: cuBLAS and cuDNN by torch, the same kernels in Triton.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from suite_support import Kind, Launches

try:
    import torch
    from torch.nn import functional
except ImportError:  # compiling needs no torch
    torch = functional = None  # type: ignore[assignment]

TASKS = {  # table 1: height and width of the image, channels, images, filters, their extents
    1: (112, 112, 64, 4, 128, 3, 3), 2: (56, 56, 128, 4, 256, 3, 3),
    3: (28, 28, 256, 4, 512, 3, 3), 4: (14, 14, 512, 4, 512, 3, 3),
    5: (7, 7, 512, 4, 512, 3, 3), 6: (161, 700, 1, 8, 64, 5, 5), 7: (79, 341, 32, 8, 32, 5, 10),
}  # fmt: skip


def _dense(task: int) -> dict[str, int]:
    """The macros of a convolution: the result is as large as the image for filters of 3 x 3, whose
    border is zeros, and smaller for the others, as in DeepSpeech2."""
    h, w, c, b, _, r, s = TASKS[task]
    same = r == 3
    return {"C": c, "R": r, "S": s, "P": h if same else h - r + 1, "Q": w if same else w - s + 1,
            "B": b}


def _shifted(task: int) -> dict[str, int]:
    h, w, c, b, *_ = TASKS[task]
    return {"C": c, "H": h, "W": w, "B": b}


DENSE = {task: _dense(task) for task in TASKS}
SHIFTED = {task: _shifted(task) for task in TASKS if task < 6}


def task_of(macros: Mapping[str, int]) -> int:
    """The number of the task with these macros; 0 if there is none."""
    own = {name: value for name, value in macros.items() if len(name) == 1}
    return next((task for table in (DENSE, SHIFTED) for task, row in table.items() if row == own),
                0)


def _of_task(sizes: Mapping[str, int], macros: Mapping[str, int]) -> bool:
    return sizes["F"] == TASKS[task_of(macros)][4]


def _triton(name: str, t: Any) -> Launches:
    """Launches of a kernel in Triton; none where it is not installed."""
    try:
        import paper_triton
    except ImportError:
        return {}
    return dict(getattr(paper_triton, name)(t))


# products: all matrices by columns, which torch sees as transposed

def _product(t: Any) -> Mapping[str, Any]:
    kind = torch.float64 if t.d.dtype == torch.float32 else torch.float32
    return {"c": t.w.t().to(kind) @ t.d.to(kind)}


def _product_peers(t: Any) -> Launches:
    cublas = {"cublas": lambda: torch.matmul(t.w.t(), t.d, out=t.c)}
    return {**cublas, **_triton("products", t)}


# dense convolutions

def _image(t: Any, last: bool) -> Any:
    """The image with its border as [B, C, H, W]."""
    return t.x.permute(0, 3, 1, 2) if last else t.x.permute(3, 0, 1, 2)


def _filters(t: Any, last: bool) -> Any:
    return t.w.permute(0, 3, 1, 2) if last else t.w.permute(3, 0, 1, 2)


def _cut(t: Any, x: Any) -> tuple[Any, tuple[int, int]]:
    """The image without the border that the libraries add themselves, and that border."""
    if t.R != 3:
        return x, (0, 0)
    return x[:, :, 1:-1, 1:-1], (1, 1)


def _bordered(last: bool) -> Any:
    """Inputs: an image whose border is zeros where the convolution has one."""
    def make(t: Any) -> Mapping[str, Any]:
        h, w = t.P + t.R - 1, t.Q + t.S - 1
        shape = (t.B, h, w, t.C) if last else (t.C, h, w, t.B)
        x = torch.randn(*shape, device=t.device)
        if t.R == 3:
            for axis in (1, 2):  # of rows and columns in both layouts
                x.narrow(axis, 0, 1).zero_()
                x.narrow(axis, x.shape[axis] - 1, 1).zero_()
        return {"x": x}

    return make


def _conv(t: Any, last: bool) -> Mapping[str, Any]:
    kind = torch.float64 if t.x.dtype == torch.float32 else torch.float32
    with torch.backends.cudnn.flags(enabled=False):
        y = functional.conv2d(_image(t, last).to(kind), _filters(t, last).to(kind))
    return {"y": y.permute(0, 2, 3, 1) if last else y.permute(1, 2, 3, 0)}


def _conv_peers(t: Any, last: bool) -> Launches:
    """cuDNN, with images and filters in either layout; the result in the kernel's for the check."""
    x, padding = _cut(t, _image(t, last))
    found = {}
    for name, layout in (("cudnn nchw", torch.contiguous_format),
                         ("cudnn nhwc", torch.channels_last)):
        image = x.contiguous(memory_format=layout)
        filters = _filters(t, last).contiguous(memory_format=layout)

        def run(image: Any = image, filters: Any = filters) -> Any:
            y = functional.conv2d(image, filters, padding=padding)
            return y.permute(0, 2, 3, 1) if last else y.permute(1, 2, 3, 0)

        found[name] = run
    return {**found, **_triton("conv_half" if last else "conv_f32", t)}


# shift convolutions: a table of shifts, in elements; the images have an edge of zeros

def shifts(t: Any) -> Any:
    """Where each channel begins, moved."""
    c = torch.arange(t.C, device=t.device)
    return (c * (t.H * t.W) + (c % 3 - 1) * t.W + c // 3 % 3 - 1 + t.W + 1) * t.B


def _shift_inputs(t: Any) -> Mapping[str, Any]:
    edge, count = (t.W + 1) * t.B, t.C * t.H * t.W * t.B
    a = torch.zeros(count + 2 * edge, device=t.device)
    a[edge:edge + count] = torch.randn(count, device=t.device)
    return {"a": a, "deltas": shifts(t)}


def _moved(t: Any) -> Any:
    return t.a[t.deltas[:, None] + torch.arange(t.M, device=t.device)]


def _naive_inputs(t: Any) -> Mapping[str, Any]:
    return {**_shift_inputs(t), "b": torch.randn(t.C, t.F, device=t.device),
            "c": torch.zeros(t.F, t.H * t.W * t.B, device=t.device)}


KINDS = {
    "product_f32": Kind("products", want=_product, peers=_product_peers),
    "product_half": Kind("half products", want=_product, peers=_product_peers,
                         variants=({"TYPE": "half"}, {"TYPE": "bfloat16"})),
    "conv_f32": Kind("convolution", want=lambda t: _conv(t, False), tolerance=2e-5,
                     peers=lambda t: _conv_peers(t, False), inputs=_bordered(False),
                     variants=tuple(DENSE.values()), only=_of_task),
    "conv_half": Kind("convolution", want=lambda t: _conv(t, True),
                      peers=lambda t: _conv_peers(t, True), inputs=_bordered(True),
                      variants=tuple(row for row in DENSE.values() if row["C"] % 32 == 0),
                      only=_of_task),
    "shift_f32": Kind("shift convolution", inputs=_shift_inputs,
                      want=lambda t: {"c": t.b.double().t() @ _moved(t).double()},
                      peers=lambda t: _triton("shift", t), variants=tuple(SHIFTED.values()),
                      only=_of_task),
    "shift_naive": Kind("shift convolution", inputs=_naive_inputs,
                        want=lambda t: {"moved": _moved(t),
                                        "c": t.b.double().t() @ _moved(t).double()},
                        peers=lambda t: {}, variants=tuple(SHIFTED.values()), only=_of_task,
                        after=lambda t: lambda: torch.matmul(t.b.t(), t.moved, out=t.c)),
}
