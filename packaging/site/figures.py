"""Draws the figures of examples/figures/out for a narrow screen, from their CSV: panels below each other, each with its
legend. The SVG beside the CSV, which is wider, has the names of the axes."""

import csv
import html
import math
import re

WIDTH, LEFT, RIGHT, HEIGHT, FONT = 360, 46, 12, 210, 13
# The colours of Okabe and Ito first, as in examples/figures/plot.rs.
COLOURS = "#0072B2 #D55E00 #009E73 #CC79A7 #E69F00 #56B4E9 #969696 #783C14 #643CB4 #B4BE00 #DC143C #000000".split()
LINEAR_X = {"drift", "td17", "td17_eps1", "trace"}
LOG_Y = {"field_delay", "field_epsilon", "fleet", "ss19_arms", "ss19_epsilon", "t21", "tails", "td16"}


def draw(path):
    """The figure of this SVG as another SVG; None if it is no figure with a CSV."""
    if not path.with_suffix(".csv").exists():
        return None
    wide = path.read_text()
    names = [re.findall(rf"<text [^>]*{mark}[^>]*>\n(.*)\n", wide) for mark in [r'dy="-0\.5ex"', r"rotate\(270"]]
    rows = list(csv.reader(path.with_suffix(".csv").open()))
    header, labels = rows[0], [name for name in rows[0][2:] if not name.endswith((", low", ", high"))]
    parts, top = [], 0
    for number, panel in enumerate(dict.fromkeys(row[0] for row in rows[1:])):
        lines = {}
        for row in (row for row in rows[1:] if row[0] == panel):
            for label in labels:
                at = header.index(label)
                bar = row[at + 1 : at + 3] if header[at + 1 : at + 2] == [label + ", low"] else ["", ""]
                if row[at]:
                    lines.setdefault(label, []).append([float(v) if v else None for v in [row[1], row[at], *bar]])
        x, y = (names[i][number % len(names[i])] for i in (0, 1))
        text, height = draw_panel(panel, lines, labels, (x, path.stem not in LINEAR_X), (y, path.stem in LOG_Y))
        parts.append(f'<g transform="translate(0 {top})">{text}</g>')
        top += height
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}" '
        f'font-family="sans-serif" font-size="{FONT}">\n<rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def draw_panel(title, lines, labels, x, y):
    points = [p for line in lines.values() for p in line if (p[0] > 0 or not x[1]) and (p[1] > 0 or not y[1])]
    heights = [v for p in points for v in p[1:] if v is not None and (v > 0 or not y[1])]
    highest = max(heights)
    # As in examples/figures/plot.rs: a logarithmic y axis has at most five decades, another one begins at 0 or below.
    lowest = max(min(heights), highest / 1e5) if y[1] else min(heights + [0])
    titles = wrapped(title, 46)
    above = 10 + 16 * len(titles)
    across, x_ticks = scale(min(p[0] for p in points), max(p[0] for p in points), x[1], LEFT, WIDTH - RIGHT, 5)
    up, y_ticks = scale(lowest, highest * (1.3 if y[1] else 1.05), y[1], above + 18 + HEIGHT, above + 18, 7)
    bottom = above + 18 + HEIGHT
    out = [f'<text x="{WIDTH / 2}" y="{20 + 16 * i}" text-anchor="middle" font-weight="bold">{html.escape(line)}</text>'
           for i, line in enumerate(titles)]
    out.append(f'<text x="4" y="{above + 10}">{y[0]}</text>')
    for value in x_ticks:
        out.append(f'<path d="M{across(value):.1f} {above + 18}V{bottom}" stroke="#ddd"/>')
        out.append(f'<text x="{across(value):.1f}" y="{bottom + 16}" text-anchor="middle">{short(value)}</text>')
    for value in y_ticks:
        out.append(f'<path d="M{LEFT} {up(value):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 5}" y="{up(value) + 4:.1f}" text-anchor="end">{short(value)}</text>')
    out.append(f'<path d="M{LEFT} {above + 18}V{bottom}H{WIDTH - RIGHT}" fill="none" stroke="black"/>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{bottom + 33}" text-anchor="middle">{x[0]}</text>')
    height = bottom + 42
    for label, line in lines.items():
        number = labels.index(label)
        style = f'stroke="{COLOURS[number % len(COLOURS)]}" fill="none"'
        style += ' stroke-dasharray="5 3"' if "not private" in label.lower() else ' stroke-width="2"'
        shown = [p for p in line if (p[0] > 0 or not x[1]) and p[1] >= lowest]
        path = "L".join(f"{across(p[0]):.1f} {up(p[1]):.1f}" for p in shown)
        bars = "".join(f"M{across(p[0]):.1f} {up(max(p[2], lowest)):.1f}V{up(p[3]):.1f}"
                       for p in shown if p[2] is not None)
        out.append(f'<path d="M{path}{bars}" {style}/>' if path else "")
        for i, part in enumerate(wrapped(label, 46)):
            if i == 0:
                out.append(f'<path d="M8 {height + 8}h22" {style}/>')
            out.append(f'<text x="36" y="{height + 12}">{html.escape(part)}</text>')
            height += 17
    return "\n".join(out), height + 14


def scale(low, high, log, start, end, most):
    """The place of a value between start and end, and at most this many ticks."""
    if high <= low:
        high = low + 1
    place = math.log10 if log else float
    a, b = place(low), place(high)
    where = lambda value: start + (place(value) - a) / (b - a) * (end - start)
    if log:
        powers = [10.0**e for e in range(math.floor(a), math.ceil(b) + 1)]
        choices = [[power * digit for power in powers for digit in digits] for digits in ([1, 2, 5], [1, 3], [1])]
    else:
        steps = (10.0**e * digit for e in range(-9, 12) for digit in (1, 2, 5))
        choices = ([step * i for i in range(math.floor(low / step), math.ceil(high / step) + 1)]
                   for step in steps if (high - low) / step < most)
    for ticks in choices:
        ticks = [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if len(ticks) <= most:
            break
    return where, ticks[:: math.ceil(len(ticks) / most)]


def short(value):
    if abs(value) >= 1e9:
        return f"{value:.0e}".replace("e+", "e")
    for unit, name in [(1e6, "M"), (1e3, "k")]:
        if abs(value) >= unit:
            return f"{value / unit:g}{name}"
    return f"{round(value, 6):g}"


def wrapped(text, most):
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > most:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines
