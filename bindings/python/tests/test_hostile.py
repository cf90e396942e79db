"""No argument crashes the interpreter, and a refused call changes nothing."""

import numpy as np
import pytest

import dpb
from dpb import _convert as convert

pytestmark = pytest.mark.long
pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

# Objects that lack a method are AttributeErrors. numpy warns of numbers that float32 does not hold, and PyPy's of arrays
# that are read as numbers.
WARNINGS = (RuntimeWarning, DeprecationWarning)
REFUSED = (dpb.Error, TypeError, ValueError, OverflowError, MemoryError, AttributeError, *WARNINGS)
ANY = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-3, 12),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=40),
    st.lists(st.one_of(st.integers(-2, 12), st.floats(width=32), st.none()), max_size=6),
    st.dictionaries(st.integers(-2, 300), st.floats(), max_size=4),
    st.lists(st.integers(0, 9), max_size=5).map(lambda values: np.array(values, np.int64)),
    st.lists(st.floats(width=32), max_size=5).map(lambda values: np.array(values, np.float32)),
    st.builds(np.empty, st.tuples(st.integers(0, 3), st.integers(0, 3))),
    st.builds(object),
)
FIELDS = sorted(set(dpb.Config.__dataclass_fields__) - {"arms", "epsilon"})
SETTINGS = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def tried(call, *arguments, **named):
    try:
        return call(*arguments, **named)
    except REFUSED:
        return None


@SETTINGS
@given(st.dictionaries(st.sampled_from(FIELDS), ANY, max_size=3), ANY, ANY, st.sampled_from([None, *dpb.policies(), "x"]))
def test_configurations(given, arms, epsilon, policy):
    # Handles of some megabytes at most.
    limits = {"pending_capacity": 1 << 16, "expected_users": 1 << 16, "max_segments": 64, "features": 16, "reward_window": 1 << 16}
    given = {name: value for name, value in given.items() if not isinstance(value, int) or value <= limits.get(name, value)}
    if not isinstance(arms, int) or arms < 1000:
        tried(dpb.Bandit, policy=policy, arms=arms, epsilon=epsilon, **given)
    bandit = tried(dpb.Bandit, policy=policy, arms=3, epsilon=1.0, **given)
    if bandit is not None:
        tried(bandit.select)
        tried(bandit.report)


BANDITS = [
    lambda: dpb.Bandit(arms=4, epsilon=1.0),
    lambda: dpb.Bandit(arms=4, epsilon=1.0, max_segments=8, fleet_key=bytes(32)),
    lambda: dpb.Bandit(arms=4, epsilon=1.0, features=3, model_per_arm=True),
    lambda: dpb.Bandit(arms=4, epsilon=1.0, features=3, expected_users=100),
    lambda: dpb.Bandit(arms=4, epsilon=1.0, delta=1e-6, horizon=1000, policy="vb-sdp-ae"),
]
METHODS = sorted(name for name in vars(dpb.Bandit) if not name.startswith("_") and callable(getattr(dpb.Bandit, name)))
REQUEST = ["slots", "segment", "user", "eligible", "values", "examined", "features", "sparse"]


@SETTINGS
@given(
    st.sampled_from(BANDITS),
    st.lists(st.tuples(st.sampled_from(METHODS), st.lists(ANY, max_size=3)), max_size=8),
    st.lists(st.dictionaries(st.sampled_from(REQUEST), ANY, max_size=3), max_size=4),
)
def test_calls(make, calls, requests):
    bandit = make()
    for name, arguments in calls:
        tried(getattr(bandit, name), *arguments)
    for request in requests:
        before = None if bandit.closed else bandit.report().decisions
        for call in (bandit.select, bandit.check, bandit.select_many, bandit.predict):
            done = tried(call, **request)
            if call == bandit.select and done is None and before is not None:
                assert bandit.report().decisions == before
    tried(repr, bandit)


@SETTINGS
@given(st.lists(ANY, max_size=5), ANY, ANY)
def test_functions(arguments, one, two):
    for call in (
        dpb.Budget,
        dpb.Counter,
        dpb.Stopping,
        dpb.shuffle_encode,
        dpb.ldp_encode,
        dpb.ticket_node,
        dpb.feature_hash,
        dpb.feature_cross,
        dpb.codebook,
        dpb.Bandit.restore,
        dpb.status_name,
    ):
        tried(call, *arguments)
    tried(dpb.shuffle_plan, one, two, 100)
    tried(dpb.ShuffleParams(one, two, one, 1.0, 1e-6)._c)
    counter = dpb.Counter("hybrid", 1.0)
    tried(counter.add, one)
    tried(dpb.Stopping("dp-nas", 1.0, 0.5, 0.5).push, one)


NUMBERS = st.one_of(
    st.integers(-(2**65), 2**65),
    st.sampled_from([2**32, 2**63, 2**63 + 1, 2**64, -(2**32)]),
    st.floats(),
    st.booleans(),
    st.none(),
    st.integers(0, 2**64 - 1).map(np.uint64),
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.floats(width=32).map(np.float32),
    st.fractions(),
    st.decimals(),
    st.text(max_size=2),
)


def is_integer(value, bits):
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 <= int(value) < 1 << bits


@SETTINGS
@given(st.lists(NUMBERS, max_size=5), st.sampled_from([32, 64]), st.sampled_from([list, tuple, lambda each: np.array(each, object)]))
def test_conversions(values, bits, form):
    """A list comes out as it went in, or is refused."""
    given = form(values)
    integers = tried(convert.integers, "x", given, bits)
    assert (integers is not None) == all(is_integer(value, bits) for value in values)
    assert integers is None or integers.tolist() == [int(value) for value in values]
    reals = tried(convert.reals, "x", given)
    assert reals is None or all(np.array_equal(one, float(value), equal_nan=True) for one, value in zip(reals, values))
    assert reals is not None or any(value is None or isinstance(value, str) or is_odd(value) for value in values)
    for value in values:
        one = tried(convert.integer, "x", value, bits)
        assert one == (int(value) if is_integer(value, bits) else None) and type(one) in (int, type(None))


def is_odd(value):
    """A signalling NaN of decimal is no float, nor is a number beyond 64 bits."""
    try:
        float(value)
    except (OverflowError, ValueError):
        return True
    return False


@SETTINGS
@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 255))
def test_bytes(data, at, byte):
    bandit = dpb.Bandit(arms=3, epsilon=1.0, fleet_key=bytes(32))
    snapshot = bytearray(bandit.snapshot())
    snapshot[at % len(snapshot)] = byte
    for call in (bandit.merge, bandit.combine, bandit.open, dpb.Bandit.restore):
        for hostile in (data, bytes(snapshot), memoryview(snapshot)):
            tried(call, hostile)
    with pytest.raises(dpb.CorruptError):
        bandit.open(data)
    assert bandit.report().decisions == 0


LOG = {"arm": [0, 1, 0], "propensity": [0.5, 0.5, 0.5], "reward": [1.0, 0.0, 1.0]}
COLUMNS = [*LOG, "eligible", "values", "examined", "features", "action", "pscore", "context"]
OPTIONS = ["features", "reward_min", "reward_max", "least_propensity", "delay", "users_limit", "seed", "threads"]


def small(value):
    return not isinstance(value, (int, float)) or abs(value) < 100


@SETTINGS
@given(
    st.dictionaries(st.sampled_from(COLUMNS), ANY, max_size=4),
    st.dictionaries(st.sampled_from(OPTIONS), ANY.filter(small), max_size=2),
    ANY,
    ANY,
)
def test_plans(columns, options, policies, epsilons):
    played = {"runs": 1, "progress": False}
    tried(dpb.replay, {**LOG, **columns}, "dp-imed", 1.0, **played, **options)
    tried(dpb.replay, columns, policies, epsilons, **played)
    tried(dpb.estimate, *[columns.get(name, LOG[name]) for name in LOG])
    service = {"decisions": 20, "policies": "dp-imed", "epsilons": 1.0, **played}
    for name in ("arms", "rate", "worst", "amount", "reward_max", "slots", "max_clicks", "delay", "processes", "users_limit"):
        tried(dpb.simulate, **{**service, name: policies} if small(policies) else service)
    tried(dpb.MAB, policies, epsilon=epsilons)
    tried(dpb.MAB(["a", "b"], epsilon=1.0).fit, policies, epsilons)
