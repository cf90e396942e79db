"""Differentially private multi-armed bandits.

    import dpb

    with dpb.Bandit(arms=10, epsilon=1.0, reward_window=1000) as bandit:
        ad = bandit.select()
        bandit.update(ad.ticket, 1.0)  # a click

docs/python.md is the guide, docs/privacy.md the guarantee.
"""

# A name is exported to callers that mypy --strict checks only by "as".
from . import fleet as fleet
from ._bandit import (
    ARM as ARM,
    DECISION as DECISION,
    NO_ARM as NO_ARM,
    Bandit as Bandit,
    Decision as Decision,
    codebook as codebook,
    feature_cross as feature_cross,
    feature_hash as feature_hash,
    ticket_node as ticket_node,
)
from ._budget import (
    Budget as Budget,
)
from ._decide import (
    DecisionTable as DecisionTable,
    Elsewhere as Elsewhere,
)
from ._library import (
    ERRORS as ERRORS,
    BufferTooSmallError as BufferTooSmallError,
    ClosedError as ClosedError,
    CorruptError as CorruptError,
    DuplicateError as DuplicateError,
    EntropyError as EntropyError,
    Error as Error,
    ExpiredError as ExpiredError,
    ForkedError as ForkedError,
    FullError as FullError,
    HaltedError as HaltedError,
    InvalidConfigError as InvalidConfigError,
    InvalidRequestError as InvalidRequestError,
    InvalidRewardError as InvalidRewardError,
    NewerVersionError as NewerVersionError,
    NoMemoryError as NoMemoryError,
    NotPrivateWarning as NotPrivateWarning,
    NotReadyError as NotReadyError,
    OverBudgetError as OverBudgetError,
    PoisonedError as PoisonedError,
    UnknownTicketError as UnknownTicketError,
    UnsupportedError as UnsupportedError,
    abi_version as abi_version,
    policies as policies,
    status_name as status_name,
    version as version,
)
from ._mab import (
    MAB as MAB,
)
from ._numbers import (
    Clock as Clock,
    Duty as Duty,
    TestState as TestState,
    Warnings as Warnings,
)
from ._plan import (
    Estimate as Estimate,
    Estimates as Estimates,
    Table as Table,
    estimate as estimate,
    replay as replay,
    simulate as simulate,
    simulate_test as simulate_test,
)
from ._shuffle import (
    ShuffleParams as ShuffleParams,
    Shuffler as Shuffler,
    ldp_encode as ldp_encode,
    shuffle_encode as shuffle_encode,
    shuffle_plan as shuffle_plan,
)
from ._sums import (
    Counter as Counter,
    Stopping as Stopping,
)
from ._report import Diagnostics as Diagnostics
from ._report import Report as Report
from ._report import Verdict as Verdict
from ._table import (
    POLICIES as POLICIES,
    Config as Config,
)

__version__ = version()
