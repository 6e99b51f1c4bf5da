r"""Formulas in LaTeX of cvxpy expressions and constraints, with the user's names.

Data have no names in cvxpy; here a matrix is A, the next B, and a vector b, then c, with a mark of
whose they are: :math:`\lVert A_{1} x - b_{1} \rVert_1`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model.text import SHOWN
from dald_model.values import flat

MATRICES, VECTORS, SCALARS = "ABDEFGHKLMNPQRSTUVWXYZ", "bcdefghklmnpqrstuvwxyz", r"\alpha \beta"
GREEK = re.compile(
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|phi|chi|"
    "psi|omega"
)
SUM, PRODUCT, POWER = range(3)
"""How tightly a formula binds: a sum, a product, what needs no brackets."""

Written = tuple[str, int]
NORMS = {"norm1": "1", "norm_inf": r"\infty", "normnuc": "*", "sigma_max": "2"}
FUNCTIONS = {
    "log": r"\log",
    "log_det": r"\log\det",
    "trace": r"\operatorname{tr}",
    "max": r"\max",
    "min": r"\min",
    "maximum": r"\max",
    "minimum": r"\min",
    "lambda_max": r"\lambda_{\max}",
    "log_sum_exp": r"\log \textstyle\sum \exp",
}
COUNTED = ("huber", "sum_largest", "sum_smallest", "lambda_sum_largest", "lambda_sum_smallest")
"""Functions with a number beside their arguments."""


class Formula:
    """Formulas of one client.

    Parameters
    ----------
    mark : str
        What stands behind the names of its data.
    called : dict
        Id of a variable -> what it is called, where that is not its name.
    free : set of int
        Ids of constants, scalars, that are written as letters.
    """

    def __init__(
        self,
        mark: str = "",
        called: Mapping[int, str] | None = None,
        free: frozenset[int] = frozenset(),
    ) -> None:
        self._mark, self._called, self._free = mark, called or {}, free
        self._letters: dict[int, str] = {}
        self.data: dict[str, tuple[int, ...]] = {}

    def of(self, part: Any) -> str:
        """The formula of an expression or a constraint."""
        if isinstance(part, cp.Constraint):
            return self._constraint(part)
        return self._written(part)[0]

    def _constraint(self, rule: cp.Constraint) -> str:
        kind, args = type(rule).__name__, rule.args
        signs = {"Inequality": r"\leq", "Equality": "=", "Zero": "= 0", "NonPos": r"\leq 0"}
        if kind in ("Inequality", "Equality"):
            return f"{self.of(args[0])} {signs[kind]} {self.of(args[1])}"
        if kind == "NonNeg":
            return rf"{self.of(args[0])} \geq 0"
        if kind == "PSD":
            return rf"{self.of(args[0])} \succeq 0"
        if kind in signs:
            return f"{self.of(args[0])} {signs[kind]}"
        if kind == "SOC":
            return rf"\lVert {self.of(args[1])} \rVert_2 \leq {self.of(args[0])}"
        inner = ", ".join(map(self.of, args))
        return rf"({inner}) \in \mathcal{{K}}_{{\text{{{escaped(kind)}}}}}"

    def _written(self, part: Any) -> Written:
        if isinstance(part, cp.Variable):
            return self._called.get(part.id) or symbol(part.name()), POWER
        if isinstance(part, cp.Parameter):
            return symbol(part.name()), POWER
        if isinstance(part, cp.Constant):
            return self._constant(part)
        kind = type(part).__name__.lower().removesuffix("approx")
        known = getattr(self, f"_{kind}", None)
        return self._function(kind, part) if known is None else known(part)

    def _within(self, part: Any, least: int) -> str:
        """A formula in brackets where it binds less than it has to."""
        text, binds = self._written(part)
        return text if binds >= least else rf"\left( {text} \right)"

    def _constant(self, part: cp.Constant) -> Written:
        if part.size == 1 and id(part) not in self._free:
            text = f"{flat(part.value)[0]:g}"
            return (text, SUM if text.startswith("-") else POWER)
        values = flat(part.value)
        if part.ndim < 2 and not np.ptp(values):
            named = {0.0: "0", 1.0: r"\mathbf{1}"}
            if values[0] in named:
                return named[values[0]], POWER
        return self._letter(part), POWER

    def _letter(self, part: cp.Constant) -> str:
        if id(part) not in self._letters:
            kind = (part.size > 1) + (part.ndim > 1 and min(part.shape) > 1)
            among = (SCALARS.split(), list(VECTORS), list(MATRICES))[kind]
            used = sum(self._kind(shape) == kind for shape in self.data.values())
            primes = "'" * (used // len(among))
            letter = f"{among[used % len(among)]}{primes}"
            letter += f"_{{{self._mark}}}" if self._mark else ""
            self._letters[id(part)] = letter
            self.data[letter] = part.shape
        return self._letters[id(part)]

    @staticmethod
    def _kind(shape: tuple[int, ...]) -> int:
        return (int(np.prod(shape)) > 1) + (len(shape) > 1 and min(shape) > 1)

    def _function(self, kind: str, part: Any) -> Written:
        """What has no notation of its own: a name and arguments."""
        name = FUNCTIONS.get(kind) or rf"\operatorname{{{escaped(kind)}}}"
        if kind in COUNTED:
            given = part.get_data()[0]
            name += f"_{{{flat(given.value)[0] if isinstance(given, cp.Constant) else given:g}}}"
        return rf"{name}\left( {', '.join(map(self.of, part.args))} \right)", POWER

    # --- sums and products ------------------------------------------------------------------------

    def _addexpression(self, part: Any) -> Written:
        args = [arg for arg in part.args if not _is_zero(arg)] or part.args[:1]
        terms = [self._within(arg, PRODUCT) if at else self.of(arg) for at, arg in enumerate(args)]
        negated = [self._negated(arg) for arg in args]
        text = terms[0]
        for at, (term, other) in enumerate(zip(terms[1:], negated[1:], strict=True), start=1):
            if len(terms) > SHOWN and 2 < at < len(terms) - 1:
                text += r" + \dots" if at == 3 else ""
                continue
            text += f" - {other}" if other else f" + {term}"
        return text, SUM if len(args) > 1 else self._written(args[0])[1]

    def _negated(self, part: Any) -> str:
        """What is subtracted, if a summand is the negative of something."""
        while type(part).__name__ == "Promote":
            part = part.args[0]
        if type(part).__name__ == "NegExpression":
            return self._within(part.args[0], PRODUCT)
        if isinstance(part, cp.Constant) and part.size == 1 and id(part) not in self._free:
            value = flat(part.value)[0]
            return f"{-value:g}" if value < 0 else ""
        return ""

    def _negexpression(self, part: Any) -> Written:
        return f"-{self._within(part.args[0], PRODUCT)}", SUM

    def _mulexpression(self, part: Any) -> Written:
        one, two = part.args
        first, second = self._within(one, PRODUCT), self._within(two, PRODUCT)
        if one.ndim == 1 and two.ndim == 1:
            return rf"{self._within(one, POWER)}^\top {second}", PRODUCT
        return f"{first} {second}", PRODUCT

    def _multiply(self, part: Any) -> Written:
        one, two = (_demoted(arg) for arg in part.args)
        sign = " " if one.size == 1 or two.size == 1 else r" \circ "
        if _is_number(one) and _is_number(two):
            sign = r" \cdot "
        return f"{self._within(one, PRODUCT)}{sign}{self._within(two, PRODUCT)}", PRODUCT

    def _divexpression(self, part: Any) -> Written:
        return rf"\frac{{{self.of(part.args[0])}}}{{{self.of(_demoted(part.args[1]))}}}", PRODUCT

    def _sum(self, part: Any) -> Written:
        return rf"\textstyle\sum {self._within(part.args[0], PRODUCT)}", PRODUCT

    # --- powers and norms -------------------------------------------------------------------------

    def _power(self, part: Any) -> Written:
        base, exponent = part.args[0], part.p
        value = flat(exponent.value if isinstance(exponent, cp.Expression) else exponent)[0]
        if value == 0.5:
            return rf"\sqrt{{{self.of(base)}}}", POWER
        return rf"{self._base(base)}^{{{value:g}}}", PRODUCT

    def _base(self, part: Any) -> str:
        text, binds = self._written(part)
        return text if binds == POWER and "^" not in text else rf"\left( {text} \right)"

    def _quad_over_lin(self, part: Any) -> Written:
        square = rf"\lVert {self.of(part.args[0])} \rVert_2^2"
        below = part.args[1]
        if _is_number(below) and flat(below.value)[0] == 1:
            return square, POWER
        return rf"\frac{{{square}}}{{{self.of(below)}}}", PRODUCT

    def _quadform(self, part: Any) -> Written:
        around = self._within(part.args[0], POWER)
        return rf"{around}^\top {self._within(part.args[1], PRODUCT)} {around}", PRODUCT

    def _pnorm(self, part: Any) -> Written:
        order, inner = float(part.p), part.args[0]
        if order == 2 and type(inner).__name__ == "reshape" and inner.args[0].ndim == 2:
            return rf"\lVert {self.of(inner)} \rVert_F", POWER
        name = r"\infty" if order == np.inf else f"{order:g}"
        return rf"\lVert {self.of(part.args[0])} \rVert_{{{name}}}", POWER

    def _norm(self, part: Any) -> Written:
        name = NORMS[type(part).__name__.lower()]
        return rf"\lVert {self.of(part.args[0])} \rVert_{{{name}}}", POWER

    _norm1 = _norm_inf = _normnuc = _sigma_max = _norm

    # --- functions with a notation of their own ---------------------------------------------------

    def _abs(self, part: Any) -> Written:
        return rf"\lvert {self.of(part.args[0])} \rvert", POWER

    def _exp(self, part: Any) -> Written:
        return rf"e^{{{self.of(part.args[0])}}}", POWER

    def _logistic(self, part: Any) -> Written:
        return rf"\log\left( 1 + e^{{{self.of(part.args[0])}}} \right)", POWER

    def _maximum(self, part: Any) -> Written:
        rest = [arg for arg in part.args if not (_is_number(arg) and flat(arg.value)[0] == 0)]
        if len(part.args) == 2 and len(rest) == 1:
            return rf"\left( {self.of(rest[0])} \right)_+", POWER
        return self._function("maximum", part)

    # --- shapes -----------------------------------------------------------------------------------

    def _index(self, part: Any) -> Written:
        (keys, *_) = part.get_data()
        said = ",".join(map(_slice, keys, part.args[0].shape))
        return f"{self._within(part.args[0], POWER)}[{said}]", POWER

    def _transpose(self, part: Any) -> Written:
        return rf"{self._base(part.args[0])}^\top", POWER

    def _same(self, part: Any) -> Written:
        return self._written(part.args[0])

    _promote = _reshape = _vec = _broadcast_to = _same

    def _hstack(self, part: Any) -> Written:
        entries = list(map(self.of, part.args))
        if len(entries) > SHOWN:
            entries = [*entries[:3], r"\dots", entries[-1]]
        return (rf"\left( {', '.join(entries)} \right)" if len(entries) > 1 else entries[0]), POWER

    _vstack = _concatenate = _hstack


def symbol(name: str) -> str:
    r"""A name as a symbol: ``x0`` is :math:`x_{0}`, and what is longer stands upright.

    >>> print(symbol("x0"), symbol("w_b"), symbol("price"), symbol("alpha"), symbol("a@b 1"))
    x_{0} w_{\text{b}} \mathrm{price} \alpha a^{\text{b 1}}
    """
    name, _, owner = name.partition("@")
    parts = re.fullmatch(r"([^\W\d_]+)[_[]?(.*?)\]?", name)  # a piece of an array is `Y[3, :]`
    stem, rest = parts.groups() if parts else (name, "")
    if GREEK.fullmatch(stem.lower()) and stem[1:].islower():
        shown = rf"\{stem}"
    elif len(stem) == 1:
        shown = stem
    else:
        shown = rf"\mathrm{{{escaped(stem)}}}" if stem.isalpha() else rf"\text{{{escaped(stem)}}}"
    shown += f"_{{{labelled(rest)}}}" if rest else ""
    return shown + (rf"^{{{labelled(owner)}}}" if owner else "")


def labelled(name: Any) -> str:
    """A client's name, or what stands behind a stem, as an index."""
    text = str(name)
    return text if text.isdigit() else rf"\text{{{escaped(text)}}}"


def escaped(text: str) -> str:
    r"""A text for LaTeX, in which nothing is a command.

    >>> print(escaped("50 % of $x_1$"))
    50 \% of \$x\_1\$
    """
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c) or (f"\\{c}" if c in "&%$#_{}" else c) for c in text)


def _demoted(part: Any) -> Any:
    while type(part).__name__ == "Promote":
        part = part.args[0]
    return part


def _is_number(part: Any) -> bool:
    return isinstance(part, cp.Constant) and part.size == 1


def _is_zero(part: Any) -> bool:
    while type(part).__name__ in ("Promote", "NegExpression"):
        part = part.args[0]
    return isinstance(part, cp.Constant) and part.size == 1 and not flat(part.value)[0]


def _slice(key: Any, size: int) -> str:
    """One index as cvxpy keeps it, a slice, as one would write it."""
    if not isinstance(key, slice):
        return str(key)
    start, stop, step = key.start or 0, size if key.stop is None else key.stop, key.step or 1
    if stop - start == 1:
        return str(start)
    if (start, stop, step) == (0, size, 1):
        return ":"
    return f"{start}:{stop}" + (f":{step}" if step != 1 else "")
