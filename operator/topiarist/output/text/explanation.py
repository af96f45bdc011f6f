"""An explanation of a word as text: the word, its meaning, and its facts in two columns."""

from __future__ import annotations

from topiarist.inspection.explanation import Explanation
from topiarist.output.text.layout import BOLD, TextLayout


def format_explanation(layout: TextLayout, explanation: Explanation) -> str:
    """Return an explanation as lines that end with a newline."""
    lines = [layout.colorize(explanation.title, BOLD)]
    lines += [f"  {line}" for line in layout.wrap(explanation.meaning, layout.text_width - 2)]
    width = max((len(label) for label, _ in explanation.facts), default=0)
    for label, text in explanation.facts:
        first, *rest = layout.wrap(text, layout.text_width - width - 4)
        lines.append(f"  {label.ljust(width)}  {first}".rstrip())
        lines += [f"  {' ' * width}  {line}" for line in rest]
    return "\n".join(lines) + "\n"
