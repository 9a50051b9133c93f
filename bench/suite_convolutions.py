"""Convolutions in the suite: tasks of the Triton paper; peers cuDNN in both layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from suite_support import Kind, Launches, tiles

try:
    import torch
    from torch.nn import functional
except ImportError:  # compiling needs no torch
    torch = functional = None  # type: ignore[assignment]

Sizes = Mapping[str, int]


def _tiles_f32(s: Sizes) -> Sequence[Mapping[str, int]]:
    if s["K"] <= 64:
        return tiles((128, 32, 16), (64, 32, 16), (128, 64, 16), (64, 64, 16))
    if s["H"] * s["W"] * s["B"] <= 1024:
        return tiles((32, 32, 32), (32, 64, 16), (64, 32, 16))
    return tiles((64, 64, 16), (128, 64, 16), (64, 128, 16), (64, 64, 8))


def _tiles_half(s: Sizes, names: str) -> Sequence[Mapping[str, int]]:
    if s["K"] <= 64:
        return tiles((128, 32, 32), (64, 32, 32), (128, 64, 32), names=names)
    if s["H"] * s["W"] * s["B"] <= 1024:
        return tiles((32, 64, 64), (64, 64, 64), (64, 32, 64), names=names)
    return tiles((128, 128, 64), (128, 64, 64), (64, 128, 64), (128, 256, 64), names=names)


def _cudnn(x: Any, w: Any, padding: tuple[int, int], transposed: bool, groups: int = 1) -> Launches:
    """cuDNN on images as [B, C, H, W] and filters [K, C, R, S] with either layout in memory; the
    result as [B, H, W, K] if `transposed`."""
    rows, last = torch.contiguous_format, torch.channels_last
    found = {}
    for name, layout in (("cudnn nchw", rows), ("cudnn nhwc", last)):
        image, filters = (v.contiguous(memory_format=layout) for v in (x, w))

        def run(image: Any = image, filters: Any = filters) -> Any:
            y = functional.conv2d(image, filters, padding=padding, groups=groups)
            return y.permute(0, 2, 3, 1) if transposed else y

        found[name] = run
    return found


def _exact(x: Any, w: Any, padding: tuple[int, int], groups: int = 1) -> Any:
    """The reference, in double where the arguments are float."""
    kind = torch.float64 if x.dtype == torch.float32 else torch.float32
    with torch.backends.cudnn.flags(enabled=False):
        return functional.conv2d(x.to(kind), w.to(kind), padding=padding, groups=groups)


def _nhwc(t: Any) -> tuple[Any, Any]:
    return t.x.permute(0, 3, 1, 2), t.w.permute(0, 3, 1, 2)


def _table_inputs(t: Any) -> Mapping[str, Any]:
    c, r, s = (torch.arange(n, device=t.device) for n in (t.C, t.R, t.S))
    rows, columns = t.H + t.R - 1, t.W + t.S - 1
    return {"table": ((c[:, None, None] * rows + r[:, None]) * columns + s).reshape(-1)}


def _table_filters(t: Any) -> Any:
    return t.w.view(t.C, t.R, t.S, t.K).permute(3, 0, 1, 2)


def _shift_inputs(t: Any) -> Mapping[str, Any]:
    c = torch.arange(t.C, device=t.device)
    return {"dh": c % 3 - 1, "dw": c // 3 % 3 - 1}


def _shifted(t: Any) -> Any:
    """Where each element of the moved images [B, C, H, W] comes from, in padded ones, flat."""
    i = torch.arange(t.H, device=t.device)[:, None] + 1 + t.dh[:, None, None]
    j = torch.arange(t.W, device=t.device) + 1 + t.dw[:, None, None]
    return (i * (t.W + 2) + j).reshape(1, t.C, -1).expand(t.B, -1, -1)


def _moved(t: Any, x: Any, places: Any) -> Any:
    padded = functional.pad(x, (1, 1, 1, 1)).reshape(t.B, t.C, -1)
    return padded.gather(2, places).view(t.B, t.C, t.H, t.W)


def _shift(t: Any, transposed: bool) -> Mapping[str, Any]:
    x = t.x.permute(0, 3, 1, 2) if transposed else t.x
    y = _exact(_moved(t, x, _shifted(t)), t.w[:, :, None, None], (0, 0))
    return {"y": y.permute(0, 2, 3, 1) if transposed else y}


def _shift_peers(t: Any, transposed: bool) -> Launches:
    x = (t.x.permute(0, 3, 1, 2) if transposed else t.x).contiguous()
    places, w = _shifted(t).contiguous(), t.w[:, :, None, None].contiguous()

    def gather() -> Any:
        y = functional.conv2d(_moved(t, x, places), w)
        return y.permute(0, 2, 3, 1) if transposed else y

    return {"gather + cudnn": gather}


KINDS = {
    "conv_nchw": Kind("convolution", tiles=_tiles_f32, hot=True, tolerance=2e-5,
                      want=lambda t: {"y": _exact(t.x, t.w, (t.PH, t.PW))},
                      peers=lambda t: _cudnn(t.x, t.w, (t.PH, t.PW), False)),
    "conv_nhwc": Kind("convolution", tiles=lambda s: _tiles_half(s, "TM TN TC"), hot=True,
                      want=lambda t: {"y": _exact(*_nhwc(t), (t.PH, t.PW)).permute(0, 2, 3, 1)},
                      peers=lambda t: _cudnn(*_nhwc(t), (t.PH, t.PW), True)),
    "conv_nhwc_flat": Kind(
        "convolution", tiles=lambda s: _tiles_half(s, "TM TN TK"), hot=True,
        want=lambda t: {"y": _exact(*_nhwc(t), (t.PH, t.PW)).permute(0, 2, 3, 1)},
        peers=lambda t: _cudnn(*_nhwc(t), (t.PH, t.PW), True)),
    "conv_table": Kind("convolution", tiles=_tiles_f32, hot=True, inputs=_table_inputs,
                       tolerance=2e-5,
                       want=lambda t: {"y": _exact(t.x, _table_filters(t), (0, 0))},
                       peers=lambda t: _cudnn(t.x, _table_filters(t), (0, 0), False)),
    "shift_conv": Kind("shift convolution", tiles=_tiles_f32, hot=True, inputs=_shift_inputs,
                       want=lambda t: _shift(t, False), peers=lambda t: _shift_peers(t, False)),
    "shift_conv_half": Kind(
        "shift convolution", tiles=lambda s: _tiles_half(s, "TM TN TK"), hot=True,
        inputs=_shift_inputs, want=lambda t: _shift(t, True),
        peers=lambda t: _shift_peers(t, True)),
}
