"""Draws line charts as SVG without a library, for light and dark backgrounds."""

COLOURS = ["#2563eb", "#16a34a", "#d97706", "#dc2626", "#7c3aed", "#0891b2"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 380, 64, 170, 34, 50


def _ticks(limit):
    for step in (m * 10**e for e in range(-4, 6) for m in (1, 2, 5)):
        if limit / step <= 8:
            return [step * i for i in range(int(limit / step) + 1)]
    return [0, limit]


def line_chart(title, x_label, y_label, series, x_limit, y_limit, level=None):
    """`series`: {name: [(x, y), …]}; lines are cut off above y_limit. `level`: (y, text) of a dashed line."""

    def x_of(x):
        return LEFT + x / x_limit * (WIDTH - LEFT - RIGHT)

    def y_of(y):
        return HEIGHT - BOTTOM - y / y_limit * (HEIGHT - TOP - BOTTOM)

    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
            ' font-size="12">'
        ),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        (
            f'<clipPath id="inside"><rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}"'
            f' height="{HEIGHT - TOP - BOTTOM}"/></clipPath>'
        ),
        f'<text x="{LEFT}" y="20" font-size="14" font-weight="bold">{title}</text>',
    ]
    for x in _ticks(x_limit):
        out.append(
            f'<line x1="{x_of(x):.1f}" y1="{TOP}" x2="{x_of(x):.1f}" y2="{HEIGHT - BOTTOM}" stroke="#e5e7eb"/>'
            f'<text x="{x_of(x):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{x:g}</text>'
        )
    for y in _ticks(y_limit):
        out.append(
            f'<line x1="{LEFT}" y1="{y_of(y):.1f}" x2="{WIDTH - RIGHT}" y2="{y_of(y):.1f}" stroke="#e5e7eb"/>'
            f'<text x="{LEFT - 6}" y="{y_of(y) + 4:.1f}" text-anchor="end">{y:g}</text>'
        )
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{x_label}</text>')
    out.append(
        f'<text transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)"'
        f' text-anchor="middle">{y_label}</text>'
    )
    if level:
        out.append(
            f'<line x1="{LEFT}" y1="{y_of(level[0]):.1f}" x2="{WIDTH - RIGHT}" y2="{y_of(level[0]):.1f}"'
            f' stroke="#6b7280" stroke-dasharray="5 4"/><text x="{WIDTH - RIGHT + 6}" y="{y_of(level[0]) + 4:.1f}"'
            f' fill="#6b7280">{level[1]}</text>'
        )
    for i, (name, points) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in points)
        out.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" clip-path="url(#inside)"/>'
        )
        out += [
            f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3" fill="{colour}"/>' for x, y in points if y <= y_limit
        ]
        y = TOP + 10 + 18 * i
        out.append(
            f'<line x1="{WIDTH - RIGHT + 6}" y1="{y}" x2="{WIDTH - RIGHT + 24}" y2="{y}" stroke="{colour}"'
            f' stroke-width="2"/><text x="{WIDTH - RIGHT + 30}" y="{y + 4}">{name}</text>'
        )
    return "\n".join(out + ["</svg>\n"])
