"""A text with styles as a picture, for documents and issues."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console

if TYPE_CHECKING:
    from rich.text import Text

__all__ = ["WIDTH", "svg"]

WIDTH = 110
"""Columns that a text for a picture should fill."""

_MAX_WIDTH = 200

# Rich's own form, without its fonts: they would be fetched from a server whenever the picture is
# opened. Each line is cut by itself; a frame around all of them would cut the last underscores off.
_FORM = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font: {char_height}px monospace; line-height: {line_height}px; }}
.{unique_id}-title {{ font: bold 18px sans-serif; }}
{styles}
</style>
<defs>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def svg(text: Text, title: str) -> str:
    """Return a text as SVG that loads nothing; lines of more than 200 columns are wrapped.

    Args:
        text: Without characters that control a terminal.
        title: In the frame of the window.
    """
    widest = max((cell_len(line.plain) for line in text.split("\n")), default=0)
    width = max(WIDTH, min(widest, _MAX_WIDTH))
    console = Console(
        record=True, width=width, file=StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(text, end="", overflow="fold")
    return console.export_svg(title=title, code_format=_FORM)
