"""The compiled model that the user holds."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import TYPE_CHECKING, Any

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.acceleration.evaluation import Acceleration
from dald_model.coordinate.method import Algorithm
from dald_model.coordinate.stopping import Stopping
from dald_model.declare.client import Client
from dald_model.explain import Explanation, explain
from dald_model.lazy_imports import pd
from dald_model.options import DEFAULT_ACCELERATION
from dald_model.schedule import drawing
from dald_model.schedule.sequence import Sequence
from dald_model.text import FOLDED, Heading, Part, Printed, counted, folded, shortened
from dald_model.values import one_at_a_time

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Compiled(Printed, Decomposition):
    """A :class:`dald_model.compile.decomposition.Decomposition` that explains and draws itself.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> compiled = common_number([0, 1, 2]).compile()
    >>> list(compiled), list(compiled["server"].neighbours)
    ([0, 1, 2, 'server'], [0, 1, 2])
    """

    @one_at_a_time()
    def explain(
        self,
        solver: Any = None,
        *,
        sequence: Sequence | None = None,
        algorithm: Algorithm | None = None,
        stopping: Stopping | None = None,
        acceleration: Acceleration | None = DEFAULT_ACCELERATION,
        disclose: str | None = None,
    ) -> Explanation:
        """The plan of a solve: solver of each client, order and parallelism.

        Parameters
        ----------
        solver, sequence, algorithm, stopping, acceleration, disclose :
            As the options of :meth:`Model.solve`.

        Raises
        ------
        OptionError
            If an option means nothing, names a solver that cannot take its client, or an
            algorithm that is not for this model.
        SequenceError
            If the sequence does not fit the consensus graph.

        Examples
        --------
        >>> from dald_model.models.mean import common_number
        >>> for reason in common_number([0, 1, 2]).compile().explain():
        ...     print(reason.solver, reason.clients, reason.what)
        factor (0, 1, 2) quadratic
        average ('server',) server
        """
        return explain(self, solver, sequence, algorithm, stopping, acceleration, disclose)

    def draw(self, sequence: Sequence | None = None) -> Figure:
        """The hierarchical network level by level, the root on top (Definition 2).

        Parameters
        ----------
        sequence : Sequence or None
            Whose network is drawn; ``None`` is the default order, :attr:`network`.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        SequenceError
            If the sequence does not fit the consensus graph.
        """
        network = self.network
        if sequence is not None:
            network = sequence.network(self.graph, self.servers)
        return drawing.network_plot(self.model.name, network, self.servers, self.couplings)

    def report(self, *, wide: bool) -> list[Part]:
        """The subproblems and the order in which they are solved."""
        sizes = (
            f"Compiled {self.model.name!r}: {counted(len(self), 'subproblem')}, "
            f"{counted(len(self.edges), 'edge')}, {self.size} consensus constraints"
        )
        level = {name: at + 1 for at, names in enumerate(self.network.levels) for name in names}
        is_folded, servers = len(self) > FOLDED, set(self.servers)
        frame = pd.DataFrame(
            {
                "client": f"{name}{_mark(sub.client)}",
                "level": level[name],
                "variables": sub.size,
                "coupled": sub.entries.size,
                "neighbours": _counted(sub.others, servers)
                if is_folded
                else shortened(", ".join(map(str, sub.others)), 40),
            }
            for name, sub in self.items()
        )
        return [Heading(sizes), folded(frame, 40) if is_folded else frame]


def _counted(neighbours: Collection[Hashable], servers: Collection[Hashable]) -> str:
    """The neighbours of one of many clients."""
    if len(neighbours) == 1 and all(name in servers for name in neighbours):
        return str(next(iter(neighbours)))
    return f"{len(neighbours)} clients"


def _mark(client: Client) -> str:
    """What stands behind the name of who is no client of the user's."""
    if client.is_hub:
        return " (server)"
    return f" ({client.kind})" if client.is_coupling else ""
