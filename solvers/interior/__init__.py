"""A primal-dual interior point whose clients show sums of curvature, together or one by one.

:mod:`.programme` has the rows and cones of one or several clients, :mod:`.cones` and
:mod:`.barriers` their scalings, :mod:`.scaled` their natural units, :mod:`.participant` what a
client does in a round, and :mod:`.coordinator` what is done with sums.
"""
