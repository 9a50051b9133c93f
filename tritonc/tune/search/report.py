"""The report of a search: one page of HTML with everything in it, drawings as SVG.

For each size: the best candidates, the time against each parameter, and where the best and the
default stand under the roofs that memory and arithmetic are."""

from collections.abc import Iterable, Sequence
from html import escape
from math import ceil, floor, log10
from pathlib import Path
from string import Template

from tritonc.launch.cuda import Peaks
from tritonc.tune.search.choices import Choice
from tritonc.tune.search.journal import Record
from tritonc.tune.search.progress import text
from tritonc.tune.search.schedule import Search
from tritonc.tune.search.task import Task
from tritonc.tune.timing.rates import amount, rates

_ROWS = 25  # of the table of candidates


def report(task: Task, device: str, peaks: Peaks | None,
           choices: Sequence[Choice], search: Search) -> str:
    title = f"Tuning {task.spec.kernel} on {device}"
    parts = [f"<h1>{escape(title)}</h1>",
             f"<p>{escape(task.spec.name)}, target {escape(task.options.arch)}: {search.done} of "
             f"{search.total} measurements done.</p>"]
    if len(choices) > 1:
        parts.append(_sizes(choices))
    for choice in choices:
        parts += _size(task, peaks, choice, search)
    parts.append(_failures(search))
    page = Template((Path(__file__).parent / "report.html").read_text(encoding="utf-8"))
    return page.substitute(title=escape(title), body="\n".join(parts))


def _sizes(choices: Sequence[Choice]) -> str:
    """What serves each size."""
    rows = []
    for choice in choices:
        default = "–" if choice.default is None else (f"{choice.milliseconds / choice.default:.3f}")
        rows.append([text(choice.size), f"{choice.milliseconds:#.4g}",
                     f"{choice.milliseconds / (choice.fastest or choice.milliseconds):.3f}",
                     default, text(choice.best)])
    members = len({text(choice.best) for choice in choices})
    return f"<h2>{len(choices)} sizes, {members} variants</h2>\n" + _rows(
        ("size", "ms", "times best", "times default", "with"), rows)


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    return (f'<div class="wide"><table><tr>{names}</tr>\n'
            + "\n".join(f"<tr>{line}</tr>" for line in lines) + "\n</table></div>")


def _size(task: Task, peaks: Peaks | None, choice: Choice, search: Search) -> list[str]:
    size = ", ".join(f"{name} = {value}" for name, value in choice.size.items())
    records = search.ranking(choice.size)
    speed = rates(task.problem, choice.size, choice.milliseconds)
    default = "" if choice.default is None else (
        f" The default takes {choice.default:.4g} ms, {choice.default / choice.milliseconds:.3f} "
        "times as long.")
    return [f"<h2>{escape(size) or 'The problem'}</h2>",
            f"<p>Best: {escape(text(choice.best))}: {choice.milliseconds:.4g} ms{speed}.{default}"
            "</p>", _table(task, choice, records),
            "<p>–, and <i>own</i> below: the pass's own choice. Each dot is a candidate, the line "
            "joins the best of each value.</p>",
            *(_against(name, values, records) for name, values in task.space.parameters.items()
              if len(values) > 1), _roofline(task, peaks, choice)]


def _table(task: Task, choice: Choice, records: Sequence[Record]) -> str:
    names = [*task.space.parameters]
    rows = []
    for place, record in enumerate(records[:_ROWS], 1):
        milliseconds = record.milliseconds or 0.0
        best = records[0].milliseconds or 1.0
        rows.append([str(place), f"{milliseconds:#.4g}", f"{milliseconds / best:.3f}",
                     *(str(record.candidate.get(name, "–")) for name in names)])
    return _rows(("", "ms", "times best", *names), rows)


def _failures(search: Search) -> str:
    most = search.reasons()[:_ROWS]
    if not most:
        return ""
    rows = "\n".join(f"<tr><td>{count}</td><td style='text-align: left'>{escape(reason)}</td></tr>"
                     for reason, count in most)
    return f"<h2>Candidates without a time</h2>\n<table>{rows}</table>"


# --- drawings -------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 300, 200, 46, 24, 10


class _Log:
    """A logarithmic axis from `low` to `high` onto pixels `start` to `end`."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high = log10(low), log10(high) if high > low else log10(low) + 1e-9
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        part = (log10(value) - self.low) / (self.high - self.low)
        return round(self.start + part * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """Round numbers on the axis: 1, 2, 5 of each power of ten, or fewer if there are many."""
        powers = range(floor(self.low), ceil(self.high) + 1)
        steps = (1, 2, 5) if len(powers) <= 3 else (1,)
        every = [step * 10.0**power for power in powers for step in steps]
        inside = [tick for tick in every if self.low <= log10(tick) <= self.high]
        if len(inside) > 1:
            return inside
        parts = (self.low + (self.high - self.low) * part for part in (0.1, 0.5, 0.9))
        return [float(f"{10**part:.3g}") for part in parts]


def _against(name: str, values: Sequence[int | None], records: Sequence[Record]) -> str:
    """The time of every candidate against one parameter, and the best for each value."""
    times = [r.milliseconds for r in records if r.milliseconds]
    if not times:
        return ""
    y = _Log(min(times) * 0.95, max(times) * 1.05, _HEIGHT - _BOTTOM, _TOP)
    step = (_WIDTH - _LEFT) / len(values)
    marks = _grid(y)
    line = []
    for place, value in enumerate(values):
        x = round(_LEFT + (place + 0.5) * step, 1)
        own = [r.milliseconds for r in records if r.candidate.get(name) == value and r.milliseconds]
        heights = sorted({round(y(t)) for t in own})  # one dot for all that share a pixel
        marks += [f'<circle class="dot" cx="{x}" cy="{height}" r="2.5"/>' for height in heights]
        label = "own" if value is None else str(value)
        marks.append(f'<text x="{x}" y="{_HEIGHT - 8}" text-anchor="middle">{label}</text>')
        if own:
            line.append(f"{x},{y(min(own))}")
    marks.append(f'<polyline class="best" points="{" ".join(line)}"/>')
    return _figure(f"Milliseconds against {name}", marks)


def _grid(y: _Log) -> list[str]:
    return [f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y(t)}" y2="{y(t)}"/>'
            f'<text x="{_LEFT - 4}" y="{y(t) + 4}" text-anchor="end">{t:g}</text>'
            for t in y.ticks()]


def _figure(caption: str, marks: Sequence[str]) -> str:
    return (f"<figure><figcaption>{escape(caption)}</figcaption>\n"
            f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{escape(caption)}">'
            + "\n".join(marks)
            + "</svg></figure>")


def _roofline(task: Task, peaks: Peaks | None, choice: Choice) -> str:
    """TFLOP/s against FLOP per byte that must be moved, under the machine's roofs."""
    flops = amount(task.problem.flops, choice.size)
    moved = amount(task.problem.bytes, choice.size)
    if flops is None or moved is None:
        return "<p>No roofline: the problem does not state both flops: and bytes:.</p>"
    intensity = flops / moved
    points = [("best", choice.milliseconds), ("default", choice.default)]
    speeds = {name: flops / t * 1e-9 for name, t in points if t}
    memory, *tops = (peak * 1e-12 for peak in peaks[:3]) if peaks is not None else (0.0,)
    roofs = {name: top for name, top in zip(("f32 on CUDA cores", "f16 on tensor cores"), tops)
             if top and memory}
    corners = [intensity, *(top / memory for top in roofs.values())]
    x = _Log(min(corners) / 8, max(corners) * 8, _LEFT, _WIDTH)
    left, right = min(corners) / 8, max(corners) * 8
    y = _Log(min([*speeds.values(), *([memory * left] if roofs else [])]) / 2,
             max([*roofs.values(), *speeds.values()]) * 2, _HEIGHT - _BOTTOM, _TOP)
    marks = _grid(y)
    marks += [f'<text x="{x(t)}" y="{_HEIGHT - 8}" text-anchor="middle">{t:g}</text>'
              for t in x.ticks()]
    for name, top in roofs.items():
        marks.append(f'<polyline class="roof" points="{x(left)},{y(memory * left)} '
                     f'{x(top / memory)},{y(top)} {x(right)},{y(top)}"/>'
                     f'<text x="{_WIDTH - 4}" y="{y(top) - 4}" text-anchor="end">{name}</text>')
    # One to the right, one to the left; below the point, since names of roofs stand on the roofs.
    sides = {"best": (7, "start"), "default": (-7, "end")}
    for name, speed in speeds.items():
        away, anchor = sides[name]
        marks.append(f'<circle class="mark" cx="{x(intensity)}" cy="{y(speed)}" r="4"/>'
                     f'<text x="{x(intensity) + away}" y="{y(speed) + 10}" '
                     f'text-anchor="{anchor}">{name}</text>')
    return _figure("TFLOP/s against FLOP per byte", marks)
