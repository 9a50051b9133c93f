"""What suite.py prints: lines, the table, the picture, the comparison, what was compiled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from statistics import median
from typing import Any

from suite_support import GROUPS, Workload

Row = dict[str, Any]
COLUMNS = ("default", "variants", "known")
HEADING = (f"{'workload':42} {'ours':>9} {'known':>9} {'peer':>9} {'':16} {'default':>7} "
           f"{'variants':>8} {'known':>6} {'copy':>5}  notes")


def judged(row: Row, workload: Workload, known: Mapping[str, Row]) -> Row:
    """The row with medians and ratios; without the times of each round."""
    times = row.pop("times", None)
    if times is None:
        return row
    middle = {name: median(values) for name, values in times.items()}
    row["spread"] = {name: round(spread(values), 4) for name, values in times.items()}
    row["milliseconds"] = middle
    wrong = row.get("wrong", {})
    ours = middle.get("ours")
    best_known = next((name for name in middle if name.startswith("known")), None)
    peers = {name: ms for name, ms in middle.items()
             if name not in ("ours", "variants") and not name.startswith(("known", "other"))
             and (name != "copy" or workload.kind.limit)}
    row["known_tile"] = best_known if best_known else ""
    row["known_compiled"] = known.get(best_known or "", {})
    if ours is None:
        row["failed"] = wrong.get("ours", "no time")
        return row
    row["ours"] = ours
    row["variants"] = middle.get("variants", ours)
    row["known"] = min(ours, middle[best_known]) if best_known else ours
    if row["known"] == ours:
        row["known_tile"] = ""
    if peers:
        row["peer"] = min(peers, key=lambda name: peers[name])
        row["default_ratio"] = peers[row["peer"]] / ours
        row["variants_ratio"] = peers[row["peer"]] / row["variants"]
        row["known_ratio"] = peers[row["peer"]] / row["known"]
    if "copy" in middle:
        row["copy_ratio"] = middle["copy"] / ours
        row["known_copy_ratio"] = middle["copy"] / row["known"]
    return row


def spread(values: Sequence[float]) -> float:
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return (ordered[-1 - quarter] - ordered[quarter]) / 2 / median(ordered)


def notes(row: Row) -> str:
    """What is worth saying of a row: rates, spills, who was wrong."""
    said = []
    if row.get("flops") and row.get("ours"):
        said.append(f"{row['flops'] / row['ours'] * 1e-9:.0f} TFLOP/s")
    elif row.get("moved") and row.get("ours"):
        said.append(f"{row['moved'] / row['ours'] * 1e-6:.0f} GB/s")
    if row.get("known_tile"):
        said.append(row["known_tile"])
    for taken in row.get("taken", []):
        tile = " ".join(f"{key}={value}" for key, value in taken["tunables"].items())
        said.append(f"variant {taken['number']} of {taken['of']}: {tile}")
    if row.get("local"):
        said.append(f"{row['local']} B spilled")
    spreads = row.get("spread", {})
    if spreads.get("ours", 0) > 0.03:
        said.append(f"spread {spreads['ours']:.2f}")
    said += [f"{name}: {why}" for name, why in row.get("wrong", {}).items()]
    said += row.get("notes", [])
    return "; ".join(said)


def line(row: Row) -> str:
    """One line of the table."""
    name = row["name"]
    if "ours" not in row:
        return f"{name:42} FAILED: {row.get('failed', '?')} {notes(row)}"
    peer = row.get("peer")

    def ms(value: float | None) -> str:
        return "" if value is None else f"{value:.4f}"

    def ratio(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    return (f"{name:42} {ms(row['ours']):>9} {ms(row['known']):>9} "
            f"{ms(row['milliseconds'].get(peer)):>9} {(peer or '')[:16]:16} "
            f"{ratio(row.get('default_ratio')):>7} {ratio(row.get('variants_ratio')):>8} "
            f"{ratio(row.get('known_ratio')):>6} "
            f"{ratio(row.get('copy_ratio')):>5}  {notes(row)}")


def geometric(values: Iterable[float]) -> float:
    """The geometric mean; NaN of nothing."""
    found = [value for value in values if value > 0]
    return math.exp(sum(map(math.log, found)) / len(found)) if found else math.nan


def _by_group(rows: Sequence[Row]) -> dict[str, list[Row]]:
    known = [*GROUPS, *(row["group"] for row in rows)]
    grouped = {group: [row for row in rows if row["group"] == group]
               for group in dict.fromkeys(known)}
    return {group: found for group, found in grouped.items() if found}


def print_table(result: Row) -> None:
    """All rows by group, then the means."""
    rows = result["rows"]
    print(f"\n{result['commit']}, {result['date']}, {result.get('gpu')}, torch "
          f"{result.get('torch')}, Triton {result.get('triton')}: milliseconds; ratio = best peer "
          f"by ours")
    print(HEADING)
    for group, found in _by_group(rows).items():
        print(f"-- {group}")
        for row in sorted(found, key=lambda row: row.get("default_ratio", 0.0)):
            print(line(row))
    print(f"\n{'geometric mean':24} {'default':>8} {'variants':>8} {'known':>8} {'of a copy':>10} "
          f"{'worst':>6}  of")
    for group, found in [*_by_group(rows).items(), ("all", rows)]:
        ratios = [row["default_ratio"] for row in found if "default_ratio" in row]
        failed = sum("ours" not in row for row in found)
        print(f"{group:24} {geometric(ratios):8.2f} "
              f"{geometric(row.get('variants_ratio', 0) for row in found):8.2f} "
              f"{geometric(row.get('known_ratio', 0) for row in found):8.2f} "
              f"{geometric(row.get('copy_ratio', 0) for row in found):10.2f} "
              f"{min(ratios, default=math.nan):6.2f}  {len(ratios)}"
              f"{f', {failed} FAILED' if failed else ''}")


def print_comparison(old: Row, new: Row) -> None:
    """What became faster or slower by 3 % and more."""
    before = {row["name"]: row for row in old["rows"]}
    print(f"\nbeside {old['commit']} of {old['date']}")
    changes = []
    for row in new["rows"]:
        was = before.get(row["name"])
        if was is None:
            print(f"  {row['name']}: new")
        elif "ours" not in row or "ours" not in was:
            if ("ours" in row) != ("ours" in was):
                print(f"  {row['name']}: {'works now' if 'ours' in row else 'FAILS now'}")
        else:
            changes.append((was["ours"] / row["ours"], was["known"] / row["known"], row))
    for speed, known, row in sorted(changes, key=lambda change: change[0]):
        if abs(speed - 1) > 0.03 or abs(known - 1) > 0.03:
            print(f"  {row['name']:42} default {speed:.2f} times as fast, known {known:.2f}; ratio "
                  f"{row.get('default_ratio', math.nan):.2f}")
    print(f"  of all: default {geometric(c[0] for c in changes):.3f} times as fast, known "
          f"{geometric(c[1] for c in changes):.3f}")


def print_compiled(workloads: Sequence[Workload], results: Sequence[Row]) -> None:
    """What --compile-only says, a line for each kernel of each compilation: bytes, seconds, and
    how long a processor was busy, since others may compile beside it."""
    print(f"{'kernel':44} {'tile':>14} {'threads':>7} {'shared':>7} {'regs':>4} {'spills':>6} "
          f"{'compile':>7} {'busy':>5} {'ptxas':>6} {'busy':>5}  tunables; machinery")
    seen = set()
    for workload, result in zip(workloads, results, strict=True):
        key = workload.stem, workload.defines
        if key in seen:
            continue
        seen.add(key)
        name = " ".join([workload.stem, *(f"{k}={v}" for k, v in workload.macros.items())])
        if "failed" in result:
            print(f"{name:44} FAILED: {result['failed']}")
            continue
        assembled = result["assembled"]
        for kernel in result["kernels"]:
            found = assembled["kernels"].get(kernel["name"], {})
            label = name if len(result["kernels"]) == 1 else f"{name}: {kernel['name']}"
            tile = "x".join(map(str, kernel["tile"])) or "1"
            shared = kernel["shared_bytes"] + kernel["dynamic_shared_bytes"]
            tunables = " ".join(f"{k}={v}" for k, v in
                                {**result["tunables"], **result["meta"]}.items())
            print(f"{label:44} {tile:>14} {kernel['threads']:7} {shared:7} "
                  f"{found.get('registers', 0):4} {found.get('spills', 0):6} "
                  f"{result['seconds']:7.2f} {result['busy']:5.2f} "
                  f"{assembled['seconds']:6.2f} {assembled['busy']:5.2f}  {tunables}; "
                  f"{machinery(result['remarks'])}"
                  + "".join(f"; {advice}" for advice in assembled["advice"])
                  + (f"; ptxas: {assembled['failed']}" if "failed" in assembled else ""))
        for warning in result["warnings"]:
            print(f"    warning: {warning}")


MACHINERY = {  # a phrase of a remark, and what it says in short
    "wgmma.": "wgmma", "uses mma": "mma", "TMA loads": "TMA", "stored by TMA": "TMA store",
    "persistent": "persistent", "(cp.async)": "cp.async", "fast path": "versions",
}


def machinery(remarks: Sequence[Sequence[Any]]) -> str:
    """What passes did, in short; and how many accesses move an element at a time."""
    done = [message for _, message, missed in remarks if not missed]
    said = [short for phrase, short in MACHINERY.items()
            if short and any(phrase in message for message in done)]
    missed = sorted({name for name, _, is_missed in remarks if is_missed})
    return " ".join(dict.fromkeys(said)) + (f" (missed: {', '.join(missed)})" if missed else "")


COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777")
LEAST, MOST = 0.05, 4.0  # of the picture's axis


def picture(result: Row) -> str:
    """The ratios as SVG: a bar for the default, a mark for known sizes, on a logarithmic axis."""
    left, width, height, top = 330, 520, 13, 46

    def place(ratio: float) -> float:
        ratio = min(MOST, max(LEAST, ratio))
        return left + width * math.log(ratio / LEAST) / math.log(MOST / LEAST)

    parts, y = [], top
    for index, (group, rows) in enumerate(_by_group(result["rows"]).items()):
        colour = COLOURS[index % len(COLOURS)]
        mean = geometric(row.get("default_ratio", 0) for row in rows)
        parts.append(f'<text x="6" y="{y + 11}" font-weight="bold">{escape(group)}: '
                     f'{mean:.2f}</text>')
        y += height + 3
        for row in sorted(rows, key=lambda row: row.get("default_ratio", 0.0)):
            parts.append(f'<text x="{left - 6}" y="{y + 10}" text-anchor="end">'
                         f'{escape(row["name"])}</text>')
            if "default_ratio" in row:
                ratio, known = row["default_ratio"], row["known_ratio"]
                x = place(ratio)
                parts.append(f'<rect x="{left}" y="{y + 2}" width="{x - left:.1f}" height="9" '
                             f'fill="{colour}"/><circle cx="{place(known):.1f}" cy="{y + 6.5}" '
                             f'r="3" fill="none" stroke="black"/><text x="{left + width + 8}" '
                             f'y="{y + 10}">{ratio:.2f} {known:.2f} {escape(row["peer"])}</text>')
            else:
                parts.append(f'<text x="{left + 4}" y="{y + 10}" fill="red">'
                             f'{"no peer" if "ours" in row else "failed"}</text>')
            y += height
        y += 4
    axis = []
    for mark in (0.05, 0.1, 0.2, 0.5, 0.8, 1.0, 2.0, 4.0):
        x = place(mark)
        axis.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 6}" y2="{y}" '
                    f'stroke="{"black" if mark == 1 else "#ccc"}"/><text x="{x:.1f}" '
                    f'y="{top - 10}" text-anchor="middle">{mark:g}</text>')
    mean = geometric(row.get("default_ratio", 0) for row in result["rows"])
    known = geometric(row.get("known_ratio", 0) for row in result["rows"])
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 190}" '
            f'height="{y + 10}" font-family="sans-serif" font-size="10">'
            f'<rect width="100%" height="100%" fill="white"/><text x="6" y="16" font-size="13">'
            f'Best peer\'s time by ours on {escape(str(result.get("gpu")))}, '
            f'{escape(result["commit"])}: {mean:.2f} by default (bars), {known:.2f} with '
            f'known sizes (circles)</text>{"".join(axis)}{"".join(parts)}</svg>\n')
