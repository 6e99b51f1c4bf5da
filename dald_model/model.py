"""The model: a declaration that compiles, solves and draws itself."""

from __future__ import annotations

from collections.abc import Hashable
from copy import copy
from typing import TYPE_CHECKING, Any

from dald_model.declare.declaration import Declaration
from dald_model.errors import DeclarationError
from dald_model.lazy_imports import LazyMethod
from dald_model.values import one_at_a_time

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dald_model.compile.programme import Latex
    from dald_model.compiled import Compiled
    from dald_model.solve import solve
else:
    solve = LazyMethod("dald_model.solve")


class Model(Declaration):
    r"""Clients, each with an objective and constraints, and the consensus between them.

    .. math::
        \min_{x_1, \dots, x_n} \sum_{i=1}^n f_i(x_i)
        \quad \text{s.t. } x_i \in X_i, \;
        G_{ij} x_i + g_{ij} = G_{ji} x_j + g_{ji} \text{ for every edge } (i, j)

    which is the paper's problem (8) where a server agrees with everybody and (16) where clients
    agree with their neighbours. :meth:`couple` adds what more than two clients have in common, and
    what is no equality.

    Parameters
    ----------
    name : str
        What tables and messages call the model.

    Notes
    -----
    ``copy.copy(model)`` is a model of its own over the same variables. A deep copy and a pickle
    are refused, since cvxpy knows variables by numbers that mean others there; in another process
    call the function that builds the model. Solves in several threads take turns.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import dald_model as dm
    >>> x = [cp.Variable(name=f"x{i}") for i in range(3)]
    >>> model = dm.Model("three numbers")
    >>> for i in range(3):
    ...     client = model.client(f"owner {i}", cp.square(x[i] - i))
    >>> model.consensus(x[0] == x[1], x[1] == x[2])
    >>> print(round(model.solve().value, 4))
    2.0
    """

    solve = solve  # a method: signature, options and their meaning stand there

    def __init__(self, name: str = "model") -> None:
        super().__init__(name)
        self._compiled: Compiled | None = None

    def _changed(self) -> None:
        super()._changed()
        self._compiled = None

    @one_at_a_time()
    def compile(self, *, rho: Any = None) -> Compiled:
        r"""The compiled model, one subproblem a client; see :class:`Compiled`.

        All that depends on neither multipliers nor penalties is computed here. Compiled once:
        later calls return the same object until the declaration changes. Where a Parameter of
        yours has no value yet, the numbers of its client wait for the solve.

        Parameters
        ----------
        rho : float, dict, array or penalty rule
            What the Parameters for :math:`\rho` are set to; multipliers and neighbour values are
            set to zero. By default all of them stay as they are: at first ones and zeros.

        Examples
        --------
        >>> from dald_model.models.mean import common_number
        >>> compiled = common_number([0, 1]).compile(rho=1.0)
        >>> print(compiled)
        Compiled 'mean': 3 subproblems, 2 edges, 2 consensus constraints
          client           level  variables  coupled  neighbours
          0                1      1          1        server
          1                1      1          1        server
          server (server)  2      1          2        0, 1
        >>> print(compiled[0].rho["server"].value)
        [1.]
        """
        from dald_model.compiled import Compiled
        from dald_model.coordinate.penalty import as_rule

        if self._compiled is None:
            if not self._clients:
                raise DeclarationError(
                    f"model {self.name!r} has no clients; declare them with model.client(...)"
                )
            self._compiled = Compiled(copy(self))
        if rho is not None:
            self._compiled.reset(as_rule(rho).init(self._compiled))
        return self._compiled

    def latex(self, client: Hashable = None) -> Latex:
        r"""The decomposed programme in LaTeX, with your names, and what clients solve in a round.

        A notebook shows formulas, ``print`` the source. More than six clients are written by kind,
        with an index i; data, which have no names in cvxpy, are :math:`A_i` and :math:`b_i`.

        Parameters
        ----------
        client : Hashable
            Whose subproblem is wanted alone.

        Raises
        ------
        DeclarationError
            If the model cannot be compiled yet.
        ResultError
            If ``client`` is no client.

        Examples
        --------
        >>> import cvxpy as cp
        >>> import dald_model as dm
        >>> x, model = [cp.Variable(name=f"x{i}") for i in range(2)], dm.Model("two numbers")
        >>> for i, name in enumerate("ab"):
        ...     _ = model.client(name, cp.square(x[i] - 3 * i), [x[i] >= 1])
        >>> model.consensus(x[0] == x[1])
        >>> for line in model.latex().splitlines()[1:4]:
        ...     print(line.split("&")[1].strip())
        x_{0}^{2}
        {} + \left( x_{1} - 3 \right)^{2}
        1 \leq x_{0}
        """
        from dald_model.compile.programme import programme, subproblem

        compiled = self.compile()
        return programme(compiled) if client is None else subproblem(compiled, client)

    def draw(self) -> Figure:
        """The consensus graph, servers included; :meth:`Compiled.draw` has the order.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        DeclarationError
            If the model cannot be compiled yet.

        Examples
        --------
        >>> from dald_model.models.mean import common_number
        >>> print(common_number([0, 1, 2]).draw().get_suptitle())
        mean: consensus graph, 3 clients, 3 edges
        """
        from dald_model.schedule import drawing

        compiled = self.compile()
        return drawing.graph_plot(self.name, compiled.graph, compiled.servers, compiled.couplings)
