"""Tables for people: no borders, capital headers, cut to a width. Pure."""

from collections.abc import Sequence

WIDTH = 100


def table(rows: Sequence[Sequence[str]], width: int | None = WIDTH) -> list[str]:
    """The rows in columns, the first being the header; the last column is cut with an ellipsis where it is too long."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    drawn = (
        "   ".join((*(f"{text:<{size}}" for text, size in zip(row, widths, strict=False)), row[-1])) for row in rows
    )
    return [cut(line.rstrip(), width) for line in drawn]


def cut(text: str, width: int | None) -> str:
    """The text, or as much of it as fits, and an ellipsis."""
    return text if width is None or len(text) <= width else f"{text[: width - 1]}…"
