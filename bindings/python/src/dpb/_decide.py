"""Tables of probabilities, by which programs decide without a bandit."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Sequence

from ._convert import integer
from ._library import CorruptError, InvalidConfigError, InvalidRequestError, NewerVersionError

if TYPE_CHECKING:
    from ._bandit import Bandit

_ALL = 1 << 32
_MOST_BYTES = 1 << 20


class Elsewhere(NamedTuple):
    """A decision by a table. Bandit.record takes it."""

    version: int
    """The version of the table; in JSON 16 hexadecimal digits."""
    id: int
    """The name of the decision; in JSON 16 hexadecimal digits."""
    propensity: float
    """The probability of the arm."""
    arm: int
    """The arm, from 0."""
    name: str
    """The name of the arm."""


class DecisionTable:
    """A published table: the same answer for a unit in every program that has it, without clock and state.

    Bandit.publish makes one, and ``str()`` is its JSON.
    """

    def __init__(self, text: str | bytes) -> None:
        """Reads a table. CorruptError or NewerVersionError for anything else: go on with the earlier table."""
        size = len(text.encode() if isinstance(text, str) else text)
        if size > _MOST_BYTES:
            raise CorruptError(f"a table of {size} bytes, and the most is {_MOST_BYTES}")
        try:
            read = json.loads(text)
            found = read["dpb_table"]
            if found != 1:
                raise NewerVersionError(f"dpb_table is {found}, and this library reads 1")
            self.name, self.salt, self.arms = str(read["name"]), str(read["salt"]), [str(arm) for arm in read["arms"]]
            self.version, self.until = _hex(read["version"]), read.get("until")
            self.contexts = {str(context): list(weights) for context, weights in read["contexts"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as wrong:
            raise CorruptError(f"no table: {wrong!r}") from None
        default = self.contexts.get("")
        fits = all(_is_sound(weights, len(self.arms)) and "\n" not in context for context, weights in self.contexts.items())
        if default is None or not fits or not self.salt or "\n" in self.salt:
            raise CorruptError("no table: the weights of each context must be one for each arm, and sum to 2^32")
        self._text = text.decode() if isinstance(text, bytes) else text

    def __str__(self) -> str:
        return self._text

    def decide(self, unit: str, context: str = "") -> Elsewhere:
        """Chooses an arm for a unit: a visitor's id, who then has this arm until the next version, or a request's id.

        An unknown context is the default, "". InvalidRequestError for a unit that is empty or has a newline.
        """
        if not isinstance(unit, str) or not unit or "\n" in unit:
            raise InvalidRequestError(f"unit must be text, not empty, and have no newline, got {unit!r}")
        if context not in self.contexts:
            context = ""
        hashed = hashlib.sha256("\n".join([self.salt, context, unit]).encode()).digest()
        left, arm = int.from_bytes(hashed[:4], "big"), 0
        weights = self.contexts[context]
        while left >= weights[arm]:
            left, arm = left - weights[arm], arm + 1
        name = int.from_bytes(hashed[:8], "big")
        return Elsewhere(self.version, name, weights[arm] / _ALL, arm, self.arms[arm])


def _hex(text: str) -> int:
    if len(text) != 16 or not set(text) <= set("0123456789abcdefABCDEF"):
        raise ValueError("a version has 16 hexadecimal digits")
    return int(text, 16)


def _is_sound(weights: Sequence[Any], arms: int) -> bool:
    whole = all(isinstance(weight, int) and not isinstance(weight, bool) and weight >= 0 for weight in weights)
    return whole and len(weights) == arms and sum(weights) == _ALL


def published(
    bandit: Bandit,
    name: str,
    arms: Sequence[str] | None,
    contexts: Mapping[str, Mapping[str, Any]],
    until: int | None,
    grace: int,
) -> DecisionTable:
    """As Bandit.publish."""
    weights = {}
    for context, request in {"": {}, **contexts}.items():
        if "\n" in context:
            raise InvalidConfigError(f"a context must have no newline, got {context!r}")
        weights[context] = [int(weight) for weight in bandit.weights(**request)]
    names = [str(arm) for arm in (range(len(weights[""])) if arms is None else arms)]
    if len(names) != len(weights[""]):
        raise InvalidConfigError(f"arms must have {len(weights[''])} names, got {len(names)}")
    report = bandit.report()
    table = {
        "dpb_table": 1,
        "name": name,
        "version": f"{bandit.table_begin(grace):016x}",
        "salt": secrets.token_hex(16),
        **({} if until is None else {"until": integer("until", until)}),
        "arms": names,
        "contexts": weights,
        "policy": report.policy,
        "is_private": report.is_private,
    }
    return DecisionTable(json.dumps(table, ensure_ascii=False))
