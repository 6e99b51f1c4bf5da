"""Formulas as MathML, which every browser draws by itself: no script, and nothing to fetch."""

import re
from html import unescape
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert_to_element
from sphinx.util.logging import getLogger

logger = getLogger(__name__)

WITH_LIMITS = {"min", "max", "inf", "sup", "argmin", "argmax"}


def drawn(node: Any, display: Any) -> str:
    """A formula as MathML; what the converter does not know is a warning."""
    code = node.astext().strip()
    # Braces and bars of another size are not known
    code = re.sub(r"\\[bB]igg?(?=\\[{}|])", "", code)
    code = re.sub(r"\\[lr]Vert\b", r"\\|", code)  # else a power sits on the bar alone, askew
    code = re.sub(r"\\arg\s*\\(min|max)", r"\\operatorname{arg\1}", code)
    if display == "block" and "\\\\" in code and not code.startswith("\\begin"):
        code = f"\\begin{{aligned}}{code}\\end{{aligned}}"
    code = code.replace("{aligned}", "{align*}")  # the converter knows one of the two
    tree = convert_to_element(code, display=display)
    for part in tree.iter():
        part.text = unescape(part.text or "")
    for part in tree.iter("msub"):
        if display == "block" and "".join(part[0].itertext()).strip() in WITH_LIMITS:
            part.tag = "munder"  # what is chosen stands below "min", as TeX has it
    unknown = [text for part in tree.iter() if (text := part.text or "").startswith(("\\", "&"))]
    if unknown:
        logger.warning("not drawn in a formula: %s", ", ".join(unknown), location=node)
    return ElementTree.tostring(tree, encoding="unicode")


def _inline(self: Any, node: nodes.math) -> None:
    self.body.append(drawn(node, "inline"))
    raise nodes.SkipNode


def _block(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math">{drawn(node, "block")}</div>\n')
    raise nodes.SkipNode


INLINE, BLOCK = (_inline, None), (_block, None)
"""What sphinx asks a renderer of formulas for: how a node is entered and left."""
