"""Differentially private multi-armed bandits.

    import dpb

    with dpb.Bandit(arms=10, epsilon=1.0, reward_window=1000) as bandit:
        ad = bandit.select()
        bandit.update(ad.ticket, 1.0)  # a click

docs/python.md is the guide, docs/privacy.md the guarantee.
"""

from ._bandit import (
    ARM,
    DECISION,
    Bandit,
    Decision,
    Diagnostics,
    Report,
    feature_cross,
    feature_hash,
    ticket_node,
)
from ._budget import Budget
from ._library import (
    ERRORS,
    BufferTooSmallError,
    ClosedError,
    CorruptError,
    DuplicateError,
    EntropyError,
    Error,
    ExpiredError,
    ForkedError,
    FullError,
    HaltedError,
    InvalidConfigError,
    InvalidRequestError,
    InvalidRewardError,
    NewerVersionError,
    NoMemoryError,
    NotPrivateWarning,
    NotReadyError,
    OverBudgetError,
    PoisonedError,
    UnknownTicketError,
    UnsupportedError,
    abi_version,
    policies,
    status_name,
    version,
)
from ._mab import MAB
from ._numbers import Clock, Duty, Warnings
from ._plan import Estimate, Estimates, Table, estimate, replay, simulate, simulate_test
from ._shuffle import ShuffleParams, Shuffler, ldp_encode, shuffle_encode, shuffle_plan
from ._sums import Counter, Stopping
from ._table import POLICIES, Config

__version__ = version()
__all__ = [name for name in dir() if not name.startswith("_")]
