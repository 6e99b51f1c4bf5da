r"""Algorithms as choices of multipliers, penalties, order and solver layer.

Not here, as no such choice gives them:

* *Gradient tracking* (Nedic, Olshevsky and Shi 2017): eliminating the trackers, its Jacobi step has
  the penalty matrix :math:`(I - W^2)/\alpha` and its prices move by :math:`(I - W)^2/\alpha`; in an
  augmented Lagrangian both are one matrix, :math:`2 G^\top \rho^2 G`, up to the dual step.
* *NIDS* (Li, Shi and Yan 2019): prices move at a predicted point, after a gradient step with the
  old prices, and the client then steps once more from where it was before; a client's turn here
  begins where its last one ended.
* *FedDyn* and *SCAFFOLD* with some of the clients a round: the server's correction moves for
  clients that are absent, too, while here a multiplier belongs to its edge and rests with it. What
  does rest is :class:`~dald_model.algorithms.federated_multipliers.FedADMM`.
* *Douglas-Rachford and ADMM with relaxation*: the multiplier would move by a point between the old
  and the new one; the dual step of :class:`~dald_model.algorithms.dald.DALD` is another factor.
* *Epochs of mini-batches* within a client: its objective is one function, whose rows nobody tells
  apart; declare batches as clients.
"""
