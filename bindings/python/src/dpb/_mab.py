"""The interface of MABWiser, for programs that have it."""

from __future__ import annotations

from typing import Any, Hashable, Iterable, Sequence

import numpy as np

from ._bandit import Bandit
from ._convert import reals
from ._library import InvalidConfigError, InvalidRequestError
from ._table import Config


class MAB:
    """A bandit with the methods of ``mabwiser.mab.MAB``: fit, partial_fit, predict, predict_expectations, add_arm.

    Each reward of fit and partial_fit is learned once, by a decision for its arm. Contexts make it dp-linear with a
    model for each arm.

    Args:
        arms: the names of the arms.
        epsilon: the privacy loss of one reward.
        policy: the name of a policy; None = what the library recommends.
        config: other fields of dpb.Config, such as reward_max or features.
    """

    def __init__(self, arms: Iterable[Hashable], epsilon: float, policy: str | None = None, **config: Any) -> None:
        self.arms: list[Hashable] = list(arms)
        if len(set(self.arms)) != len(self.arms):
            raise InvalidConfigError("arms must differ")
        self._numbers = {name: number for number, name in enumerate(self.arms)}
        self._given = {"epsilon": epsilon, **config}
        self._policy = policy
        self.bandit: Bandit | None = None

    def fit(self, decisions: Sequence[Hashable], rewards: Sequence[float], contexts: Any = None) -> MAB:
        """Forgets all, and learns from these rewards."""
        features = {} if contexts is None else {"features": _rows(contexts).shape[1], "model_per_arm": True}
        self.bandit = Bandit(Config(**{**features, **self._given, "arms": len(self.arms)}), self._policy)
        return self.partial_fit(decisions, rewards, contexts)

    def partial_fit(self, decisions: Sequence[Hashable], rewards: Sequence[float], contexts: Any = None) -> MAB:
        """Learns from further rewards."""
        bandit = self._fitted()
        try:
            arms = np.array([[self._numbers[name]] for name in np.asarray(decisions, dtype=object)], np.uint32)
        except KeyError as unknown:
            raise InvalidRequestError(f"there is no arm {unknown}") from None
        values = reals("rewards", rewards)
        if len(arms) != len(values):
            raise InvalidConfigError(f"decisions and rewards must be as many, got {len(arms)} and {len(values)}")
        rows = None if contexts is None else _rows(contexts)
        for begin in range(0, len(arms), 1024):
            part = slice(begin, begin + 1024)
            chosen = bandit.select_many(eligible=arms[part], features=None if rows is None else rows[part])
            bandit.update_many(chosen["ticket"], values[part])
        return self

    def predict(self, contexts: Any = None) -> Any:
        """The arm to play: one, or with contexts one for each row. Its reward comes by partial_fit."""
        bandit = self._fitted()
        if contexts is None:
            decision = bandit.select()
            bandit.cancel(decision.ticket)
            return self.arms[decision.arm]
        chosen = bandit.select_many(features=_rows(contexts))
        for ticket in chosen["ticket"].tolist():
            bandit.cancel(ticket)
        names = [self.arms[arm] for arm in chosen["arm"].tolist()]
        return names if len(names) > 1 else names[0]

    def predict_expectations(self, contexts: Any = None) -> Any:
        """The released mean of each arm (NaN before its first release), or with contexts the predicted ones."""
        bandit = self._fitted()
        if contexts is None:
            means = bandit.arms()["mean"]
            return {name: float(means[number]) for name, number in self._numbers.items()}
        rows = _rows(contexts)
        of = [bandit.predict(features=row)[0] for row in rows]
        found = [{name: float(means[number]) for name, number in self._numbers.items()} for means in of]
        return found if len(found) > 1 else found[0]

    def add_arm(self, arm: Hashable) -> None:
        """Adds an arm."""
        if arm in self._numbers:
            raise InvalidConfigError(f"there is an arm {arm!r}")
        number = len(self.arms) if self.bandit is None else self.bandit.add_arm()
        self.arms.append(arm)
        self._numbers[arm] = number

    def _fitted(self) -> Bandit:
        if self.bandit is None:
            raise InvalidConfigError("call fit first")
        return self.bandit


def _rows(contexts: Any) -> np.ndarray[Any, Any]:
    return np.atleast_2d(reals("contexts", contexts, np.float32, ndim=None))
