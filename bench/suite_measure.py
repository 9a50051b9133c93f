"""One workload of the suite on a GPU: checked, then timed beside its peers.

A sample is a CUDA graph of launches that go through several copies of the data in turn, as many as
the L2 cache cannot hold; candidates take turns, with idle gaps between them.  Each candidate's
result is compared with the reference first; who is wrong is not timed.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import suite_screen
import torch
from suite_support import Workload

DTYPES = {
    "bool": torch.bool, "signed char": torch.int8, "unsigned char": torch.uint8,
    "short": torch.int16, "int": torch.int32, "unsigned int": torch.uint32,
    "long long": torch.int64, "half": torch.float16,
    "bfloat16": torch.bfloat16, "float": torch.float32, "double": torch.float64,
    "float8_e4m3": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2,
}  # fmt: skip
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 2e-3,
              torch.bfloat16: 1e-2, torch.float8_e4m3fn: 5e-2, torch.float8_e5m2: 1e-1}
BEYOND_L2 = 160 << 20  # bytes of all copies together, at least
COPIES = 48
DEVICE = "cuda"
GAPS = {False: 0.003, True: 0.012}  # seconds of rest after a sample; longer where the chip heats
PEER_SLACK = 4  # a peer may be so much less exact than a kernel

Run = Callable[[], Any]
Say = Callable[[str], None]


class Case:
    """Tensors, scalars, sizes and macros of a workload by name, as attributes."""

    def __init__(self, values: Mapping[str, Any], device: str) -> None:
        self.__dict__.update(values)
        self.names, self.device = list(values), device

    def clone(self) -> Case:
        """The same values in other memory."""
        return Case({name: value.clone() if isinstance(value, torch.Tensor) else value
                     for name, value in self.items()}, self.device)

    def items(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self.names]

    @property
    def bytes(self) -> int:
        """Of all tensors."""
        return sum(value.numel() * value.element_size() for _, value in self.items()
                   if isinstance(value, torch.Tensor))


def case_of(workload: Workload, types: Mapping[str, str], device: str = DEVICE) -> Case:
    """The arguments as the `//!` lines say; `types` has those of the parameters, as the manifest
    spells them."""
    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=device)

    makers: dict[str, Any] = {
        "randn": randn,
        "rand": lambda *shape: torch.rand(*shape, device=device),
        "randint": lambda low, high, *shape: torch.randint(low, high, shape, device=device),
        "zeros": lambda *shape: torch.zeros(*shape, device=device),
        "empty": lambda *shape: torch.full(shape, float("nan"), device=device),
        "ones": lambda *shape: torch.ones(*shape, device=device),
        "full": lambda *shape: torch.full(shape[:-1], shape[-1], device=device),
        "arange": lambda count: torch.arange(count, device=device),
        "__builtins__": {"min": min, "max": max, "abs": abs},
    }
    sizes = {**workload.macros, **workload.sizes}
    case = Case(sizes, device)
    if workload.kind.inputs:
        _add(case, workload.kind.inputs(case), types)
    for stage in workload.problem.stages:
        for name, text in stage.arguments.items():
            if name not in case.names or name in sizes:
                value = eval(text, makers, sizes)
                _add(case, {name: value}, types)
    return case


def _add(case: Case, values: Mapping[str, Any], types: Mapping[str, str]) -> None:
    for name, value in values.items():
        kind = types.get(name, "")
        if kind.endswith("*"):
            dtype = DTYPES[kind.removeprefix("const ").removesuffix("*").strip()]
            value = torch.as_tensor(value, device=case.device).to(dtype).contiguous()
        setattr(case, name, value)
        if name not in case.names:
            case.names.append(name)


def types_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The types of all kernels' parameters by name."""
    return {p["name"]: p["type"] for kernel in manifest["kernels"] for p in kernel["parameters"]}


def fresh(workload: Workload, case: Case) -> Case:
    """A copy whose outputs hold nothing that could be taken for a result."""
    copy = case.clone()
    pure = {name for stage in workload.problem.stages for name, text in stage.arguments.items()
            if text.startswith("zeros(")}
    for name in workload.problem.outputs:
        value = getattr(copy, name)
        if name in pure and name not in workload.kind.zeroed:
            if value.dtype.is_floating_point and value.element_size() > 1:
                value.fill_(float("nan"))
            elif value.dtype != torch.bool:
                value.view(torch.int8).fill_(77)
    return copy


def error_of(workload: Workload, case: Case, result: Any, want: Mapping[str, torch.Tensor],
             slack: float = 1) -> tuple[float, str]:
    """The greatest relative error, and what is wrong, if anything.

    `result` is what a peer returned, if that is the first output (or all); otherwise the outputs
    of `case` count.  A peer that has no use for an output of ours returns None in its place.
    """
    found = {name: getattr(case, name) for name in want}
    given = result if isinstance(result, (tuple, list)) else [result]
    for name, value in zip(want, given):
        if value is None and len(given) == len(want) > 1:
            del found[name]
        if isinstance(value, torch.Tensor) and value.numel() == want[name].numel():
            found[name] = value
            if not isinstance(result, (tuple, list)) or len(result) < len(want):
                found = {name: value}
    worst, complaint = 0.0, ""
    for name, got in found.items():
        a, b = got.reshape(-1), want[name].reshape(-1)
        if b.dtype.is_floating_point:
            tolerance = (workload.kind.tolerance or workload.problem.tolerance
                         or TOLERANCES[getattr(case, name).dtype])
            tolerance = max(tolerance, TOLERANCES.get(a.dtype, 0.0))
            error = _relative(a, b)
        else:
            tolerance = workload.kind.tolerance or 0.0
            error = _different(a, b, workload.kind.units)
        worst = max(worst, error) if error == error else error
        if not error <= tolerance * slack:
            complaint = f"{name}: error {error:.1e}, allowed {tolerance * slack:.0e}"
    return worst, complaint


def _different(got: torch.Tensor, want: torch.Tensor, units: int) -> float:
    """The share of integers that differ, by more than so many units."""
    if not want.numel():
        return 0.0
    if not units:
        return float((got.to(want.dtype) != want).double().mean())
    return sum(float(((a.long() - b.long()).abs() > units).sum()) for a, b in zip(
        got.split(1 << 26), want.split(1 << 26), strict=True)) / want.numel()


def _relative(got: torch.Tensor, want: torch.Tensor) -> float:
    """||got - want|| / ||want||, in pieces."""
    above = below = 0.0
    for a, b in zip(got.split(1 << 26), want.split(1 << 26), strict=True):
        a, b = a.double(), b.double()
        above += float((a - b).square().sum())
        below += float(b.square().sum())
    return math.sqrt(above / below) if below else math.sqrt(above)


def launcher(workload: Workload, kernels: Mapping[str, Any], case: Case) -> Run:
    """A launch of all kernels of a file, behind clearing what they add to."""
    cleared = [getattr(case, name) for name in workload.kind.zeroed]
    parts = _parts(workload, kernels, case)

    after = workload.kind.after(case) if workload.kind.after else None

    def run() -> None:
        for tensor in cleared:
            tensor.zero_()
        stream = torch.cuda.current_stream().cuda_stream
        for kernel, extents, arguments in parts:
            kernel.launch(stream, extents, *arguments)
        if after is not None:
            after()

    return run


def _parts(workload: Workload, kernels: Mapping[str, Any], case: Case
           ) -> list[tuple[Any, tuple[int, ...], list[Any]]]:
    """Each kernel of a file with its range and its arguments."""
    known = dict(case.items())
    parts = []
    for stage in workload.problem.stages:
        kernel = kernels[stage.kernel] if stage.kernel else next(iter(kernels.values()))
        extents = tuple(int(workload.number(text)) for text in stage.range)
        parts.append((kernel, extents, [known[p.name] for p in kernel.parameters]))
    return parts


class Sampler:
    """A candidate: launches on each copy of the data, in a graph."""

    def __init__(self, runs: Sequence[Run], least_ms: float) -> None:
        for run in (runs[0], runs[-1], runs[0]):
            run()
        torch.cuda.synchronize()
        once = min(_milliseconds(runs[0]), _milliseconds(runs[-1]))
        self.count = min(400, max(len(runs), math.ceil(least_ms / max(once, 2e-3))))
        self.runs, self.captured = runs, True
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._all()
            self.go: Run = graph.replay
        except Exception:  # what waits for the GPU cannot be captured
            torch.cuda.synchronize()
            self.captured, self.go = False, self._all
        self.go()
        torch.cuda.synchronize()

    def _all(self) -> None:
        for index in range(self.count):
            self.runs[index % len(self.runs)]()

    def sample(self) -> float:
        """Milliseconds of a launch."""
        return _milliseconds(self.go) / self.count


def _milliseconds(run: Run) -> float:
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def in_turn(samplers: Mapping[str, Sampler], rounds: int, gap: float) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in samplers}
    for _ in range(rounds):
        for name, sampler in samplers.items():
            times[name].append(sampler.sample())
            time.sleep(gap)
    return times


def spread(values: Sequence[float]) -> float:
    """Half the distance of the quartiles, relative to the median."""
    if len(values) < 3:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / 2 / middle


def copy_runs(moved: int) -> list[Run]:
    """Copies that read and write `moved` bytes together, through buffers beyond L2."""
    count = max(1, min(moved, 4 << 30) // 8)
    pieces = max(1, min(COPIES, -(-BEYOND_L2 // (8 * count))))
    source = torch.zeros(pieces, count, device=DEVICE)
    target = torch.empty_like(source)
    return [lambda a=source[i], b=target[i]: torch.mul(a, 1, out=b) for i in range(pieces)]


def measure(workload: Workload, modules: Mapping[str, tuple[Any, Mapping[str, Any]]],
            rounds: int, least_ms: float, skip: Sequence[str], say: Say,
            others: Mapping[str, Workload] | None = None, screen: int = 0, graphs: int = 1
            ) -> dict[str, Any]:
    """Times and errors of a workload.

    `modules` has what was compiled: "ours" by default, "variants", "known ..." for sizes; each
    is what has kernels by name, and its manifest.  `skip` names candidates that broke a run before.
    Those of `others` are of another workload, with data of its own, and measured beside this one.
    With `screen` only so many go on of those whose names begin with the same word, by a first
    glance, whose times are in "screened".  Rounds go through so many graphs of each: below 10 us
    graphs of one kernel differ by up to 5 per cent.
    """
    homes = dict.fromkeys(modules, workload) | dict(others or {})
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    kind, notes = workload.kind, []
    say("data")
    first: dict[str, Case] = {}
    want: dict[str, Mapping[str, torch.Tensor]] = {}
    for name, home in homes.items():
        if home.name not in first:
            first[home.name] = case_of(home, types_of(modules[name][1]))
            say("reference")
            want[home.name] = dict(home.kind.want(first[home.name]))
    case = first[workload.name]
    torch.cuda.synchronize()
    errors: dict[str, float] = {}
    wrong: dict[str, str] = {}
    glances: dict[str, float] = {}
    if screen:
        mine = {name: kernels for name, (kernels, _) in modules.items() if " " in name}
        glances = suite_screen.screened(mine, lambda kernels, c: launcher(workload, kernels, c),
                                        case, say, wrong)
        dropped = set(mine) - suite_screen.fastest(glances, screen)
        modules = {name: pair for name, pair in modules.items() if name not in dropped}

    def attempt(name: str, start: Callable[[Case], Run], slack: float = 1) -> bool:
        if name in skip or name.split()[0] in skip:
            wrong[name] = "left out"
            return False
        say(name)
        home = homes.get(name, workload)
        trial = fresh(home, first[home.name])
        try:
            result = start(trial)()
            torch.cuda.synchronize()
            errors[name], complaint = error_of(home, trial, result, want[home.name], slack)
            if complaint:
                wrong[name] = f"wrong: {complaint}"
        except Exception as error:
            wrong[name] = f"{type(error).__name__}: {error}".split("\n")[0][:160]
            torch.cuda.synchronize()  # raises where the context is lost
        return name not in wrong

    starts: dict[str, Callable[[Case], Run]] = {}
    for name, (kernels, _) in modules.items():
        starts[name] = lambda c, kernels=kernels, home=homes[name]: launcher(home, kernels, c)
    say("peers")
    for name in kind.peers(case):
        starts[name] = lambda c, name=name: kind.peers(c)[name]
    good = [name for name, start in starts.items()
            if attempt(name, start, 1 if name in modules else PEER_SLACK)]
    want.clear()
    gc.collect()
    torch.cuda.empty_cache()

    copies = max(1, min(COPIES, -(-BEYOND_L2 // max(1, case.bytes))))
    cases = {home: [c, *(c.clone() for _ in range(copies - 1))] for home, c in first.items()}
    launches = {name: [starts[name](c) for c in cases[homes[name].name]]
                for name in good if name in modules}
    by_case = [kind.peers(c) for c in cases[workload.name]]
    launches |= {name: [peers[name] for peers in by_case] for name in good if name not in modules}
    moved = int(workload.number(workload.problem.bytes)) if workload.problem.bytes else 0
    if moved:
        launches["copy"] = copy_runs(moved)
    samplers: dict[str, Sampler] = {}
    for name, runs in launches.items():
        say(f"{name} timed")
        try:
            samplers[name] = Sampler(runs, least_ms)
        except Exception as error:
            wrong[name] = f"{type(error).__name__}: {error}".split("\n")[0][:160]
            torch.cuda.synchronize()  # raises where the context is lost
            continue
        if not samplers[name].captured:
            notes.append(f"{name}: no graph")
    gap = GAPS[kind.hot]
    samplers, compared = _best_of_each(samplers, gap)
    say("rounds")
    times = in_turn(samplers, rounds, gap)
    for _ in range(graphs - 1):
        again = {name: Sampler(launches[name], least_ms) for name in samplers}
        for name, values in in_turn(again, rounds, gap).items():
            times[name] += values
    return {
        "times": times, "errors": errors, "wrong": wrong, "notes": notes, "copies": copies,
        "screened": glances, "compared": compared, "moved": moved,
        "flops": float(workload.number(workload.problem.flops or "0")),
        "local": _local_bytes(modules["ours"][0]),
        "taken": _taken(workload, modules["variants"][0], case) if "variants" in modules else [],
    }


def _best_of_each(samplers: Mapping[str, Sampler], gap: float
                  ) -> tuple[dict[str, Sampler], dict[str, float]]:
    """Of the candidates that share their first word the fastest: tiles with known sizes, and
    configurations; and the times of those that were compared."""
    groups: dict[str, dict[str, Sampler]] = {}
    for name, sampler in samplers.items():
        groups.setdefault(name.split()[0], {})[name] = sampler
    chosen, compared = {}, {}
    for rivals in groups.values():
        if len(rivals) > 1:
            taken = in_turn(rivals, 3, gap / 4)
            best = min(taken, key=lambda name: min(taken[name]))
            rivals = {best: rivals[best]}
            compared |= {name: statistics.median(of) for name, of in taken.items()}
        chosen |= rivals
    return chosen, compared


def _taken(workload: Workload, kernels: Mapping[str, Any], case: Case) -> list[dict[str, Any]]:
    """The variant of each kernel that a launch takes: its number and its tunables."""
    found = []
    for kernel, extents, arguments in _parts(workload, kernels, case):
        number = kernel.variant(extents, *arguments)
        taken = kernel.variants[number - 1] if number else kernel
        found.append({"number": number, "of": len(kernel.variants), "tunables": taken.tunables})
    return found


def _local_bytes(kernels: Mapping[str, Any]) -> int | None:
    """Bytes of local memory of a thread, which are spills; None where the driver does not say."""
    try:
        from tritonc.launch import cuda_driver

        driver = cuda_driver.open_driver()
        wanted = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES
        return max(int(driver.cuFuncGetAttribute(wanted, kernel.module.entry(driver, 0, kernel))[1])
                   for kernel in kernels.values())
    except Exception:
        return None
