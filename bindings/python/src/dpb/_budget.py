"""The privacy budget of several bandits."""

from __future__ import annotations

from ._convert import real
from ._library import Handle, check, ffi, lib, new_error


class Budget(Handle):
    """The most that several bandits may together cost one user: ``Config(..., budget=budget)``.

    A bandit is charged when it is made, with all that it can cost one user. Closing a bandit returns nothing.

    Args:
        epsilon: above 0.
        delta: in [0, 1); 0 = pure policies only.
    """

    __slots__ = ()

    def __init__(self, epsilon: float, delta: float = 0.0) -> None:
        out, error = ffi.new("dpb_budget **"), new_error()
        check(lib.dpb_new_budget(real("epsilon", epsilon), real("delta", delta), out, error), error)
        self._own(out[0], lib.dpb_budget_free)

    def charge(self, epsilon: float, delta: float = 0.0) -> None:
        """Charges what another system releases about the same people, before the release; or raises OverBudgetError."""
        error = new_error()
        self._check(lib.dpb_budget_charge(self._c, real("epsilon", epsilon), real("delta", delta), error), error)

    def spent(self, delta: float = 0.0) -> float:
        """An upper bound of what the bandits charged so far may cost one user together, at this delta."""
        epsilon = ffi.new("double *")
        self._check(lib.dpb_budget_spent(self._c, real("delta", delta), epsilon))
        return float(epsilon[0])

    def remaining(self) -> float:
        """The largest epsilon of a pure bandit that still fits, 0 if none does."""
        epsilon = ffi.new("double *")
        self._check(lib.dpb_budget_remaining(self._c, epsilon))
        return float(epsilon[0])

    def __enter__(self) -> Budget:
        return self

    def __repr__(self) -> str:
        return "<dpb.Budget, closed>" if self.closed else f"<dpb.Budget: {self.remaining():g} remaining>"
