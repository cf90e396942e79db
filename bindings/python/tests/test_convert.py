"""What is passed to C is what was given, or is refused: at every entry point, for every kind of number."""

import array
import datetime
import decimal
import fractions
import subprocess
import sys

import numpy as np
import pytest

import dpb
from dpb import _convert as convert

REFUSED = (dpb.Error, TypeError)
NOT_INTEGERS = [0.9, 1.0, "1", None, True, np.True_, np.float32(1), decimal.Decimal(1), fractions.Fraction(1), 1j, b"1", [1], {1}]
NOT_INTEGERS += [np.ma.array(1, mask=True), np.ma.masked, np.datetime64(1, "s"), datetime.timedelta(1), np.array(1.0), np.array([1])]
NOT_NUMBERS = ["1", None, 1j, b"1", [1.0], np.ma.masked, np.ma.array(1.0, mask=True), np.datetime64(1, "s"), np.timedelta64(1, "s")]
NOT_NUMBERS += [np.array([1.0]), datetime.date(2026, 1, 1)]


def make(**given):
    return dpb.Bandit(**{"arms": 4, "epsilon": 1.0, "fleet_key": bytes(32), **given})


ONE, TWO, SHUFFLED = make(), make(max_segments=4, expected_users=9), make(policy="sdp-ae", delta=1e-6, horizon=1000, fleet_key=None)
TABLES = make(policy="dp-med", table_capacity=1 << 10)
SHUFFLE = {"users": 9, "coins_per_user": 1, "coin_numerator": 1, "epsilon": 1.0, "delta": 1e-6}
INTEGERS = {
    "arms": (lambda value: make(arms=value), 32),
    "horizon": (lambda value: make(horizon=value), 64),
    "reward_window": (lambda value: make(reward_window=value), 32),
    "clock": (lambda value: make(clock=value), 32),
    "segment": (lambda value: TWO.select(segment=value, user=1), 64),
    "user": (lambda value: TWO.select(segment=1, user=value), 64),
    "slots": (lambda value: ONE.select(slots=value) if value is not None else ONE.select(slots=[]), 32),
    "n": (lambda value: ONE.select_many(value if value is not None else "n"), 64),
    "slots of many": (lambda value: ONE.select_many(1, slots=value), 32),
    "ticket": (lambda value: ONE.update(value, 1.0), 64),
    "ticket of cancel": (lambda value: ONE.cancel(value), 64),
    "now": (make(clock=dpb.Clock.CALLER, reward_window=9).advance, 64),
    "ticks": (make(reward_window=9).skip, 64),
    "id": (lambda value: ONE.add_arm(id=value), 64),
    "arm": (ONE.retire_arm, 32),
    "arm of a prior": (lambda value: ONE.set_prior(value, 0.5, 1), 32),
    "i": (lambda value: ONE.compare(value, 2), 32),
    "j": (lambda value: ONE.compare(2, value), 32),
    "control": (lambda value: ONE.lift(value if value is not None else "none"), 32),
    "key": (TWO.segment, 64),
    "grace": (make(table_capacity=2).table_begin, 64),
    "until": (lambda value: TABLES.publish("a", until=value if value is not None else "none"), 64),
    "version": (lambda value: TABLES.find(value, 1), 64),
    "id of a record": (lambda value: TABLES.record(TABLES.table_begin(0), value, 1), 64),
    "arm of a record": (lambda value: TABLES.record(TABLES.table_begin(0), 1, value), 32),
    "receiver": (lambda value: make().suspend(value), 64),
    "handles": (ONE.set_handles, 32),
    "generation": (lambda value: make().contribution(value), 64),
    "phase": (SHUFFLED.shuffle_params, 32),
    "phase of a batch": (lambda value: SHUFFLED.submit_shuffled(value, 0, b""), 32),
    "node": (dpb.ticket_node, 64),
    "d": (lambda value: dpb.feature_hash("a", "b", value), 32),
    "a": (lambda value: dpb.feature_cross(value, 1, 9), 32),
    "size": (lambda value: dpb.codebook([[1.0, 2.0], [2.0, 1.0]], value), 32),
    "counter": (lambda value: dpb.Counter("binary", 1.0, horizon=value), 64),
    "users": (lambda value: dpb.shuffle_plan(1.0, 1e-6, value), 32),
    "coins": (lambda value: dpb.shuffle_encode(dpb.ShuffleParams(**{**SHUFFLE, "coins_per_user": value}), 1.0), 32),
    "runs": (lambda value: dpb.simulate(decisions=10, runs="" if value is None else value), 64),
    "n_actions": (lambda value: dpb.replay({"action": [0, 1], "pscore": [0.5] * 2, "reward": [0] * 2, "n_actions": value or 1.5}), 32),
}
REALS = {
    "epsilon": lambda value: make(epsilon=value),
    "delta": lambda value: make(delta=value),
    "reward": lambda value: ONE.update(ONE.select().ticket, value),
    "mean": lambda value: ONE.set_prior(1, value, 1.0),
    "strength": lambda value: ONE.set_prior(1, 0.5, value),
    "confidence": lambda value: ONE.compare(1, 2, value),
    "confidence of a lift": lambda value: ONE.lift(1, value),
    "spent": lambda value: ONE.epsilon_spent(value),
    "budget": dpb.Budget,
    "budget's delta": lambda value: dpb.Budget(1.0, value),
    "counter": lambda value: dpb.Counter("hybrid", value),
    "add": dpb.Counter("hybrid", 1.0).add,
    "range": lambda value: dpb.Stopping("dp-nas", value, 0.5, 0.5),
    "push": dpb.Stopping("dp-nas", 1.0, 0.5, 0.5).push,
    "plan": lambda value: dpb.shuffle_plan(value, 1e-6, 100),
    "encode": lambda value: dpb.shuffle_encode(dpb.shuffle_plan(1.0, 1e-6, 1000), value),
    "ldp": lambda value: dpb.ldp_encode(value, 1.0),
    "ldp's reward": lambda value: dpb.ldp_encode(1.0, value),
    "rate": lambda value: dpb.simulate(decisions=10, runs=2, rate="" if value is None else value),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_an_integer_is_not_changed(name):
    call, bits = INTEGERS[name]
    for wrong in [*NOT_INTEGERS, -1, -(2**bits), 2**bits, 2**bits + 1, np.int64(-1)]:
        with pytest.raises(REFUSED):
            call(wrong)


@pytest.mark.parametrize("name", REALS)
def test_a_number_is_not_changed(name):
    for wrong in [*NOT_NUMBERS, 10**400]:
        if name in ("rate",) and wrong == [1.0]:
            continue
        with pytest.raises(REFUSED):
            REALS[name](wrong)


def test_numbers_of_every_library_are_taken():
    bandit = make(max_segments=4)
    for two in (2, np.uint8(2), np.int64(2), np.array(2), np.uint64(2)):
        assert bandit.select(segment=two, eligible=[two]).arm == 2
    for one in (1, 1.0, True, np.True_, np.float32(1), np.array(1.0), decimal.Decimal(1), fractions.Fraction(1)):
        bandit.update(bandit.select(segment=1).ticket, one)
    assert bandit.report().answered == 8
    for flag in (1, "no", None, np.array([True])):
        with pytest.raises(TypeError, match="clamp_rewards"):
            make(clamp_rewards=flag)
    assert make(clamp_rewards=np.True_)


BAD_ARMS = [[2**32 + 1], [-(2**32)], [0.9], [1, 2.0], [True, False, True], np.array([True, False]), np.array([2**32 + 1]), np.array([-1])]
BAD_ARMS += [[None], ["1"], "1", b"\x01", 1, {1, 2}, {1: 2}, [[1, 2]], np.array([[1, 2]]), [np.ma.masked], np.ma.array([1, 2], mask=[1, 0])]
BAD_ARMS += [np.array([1.0]), np.array([1], "m8[s]"), array.array("d", [1.0]), [np.float64(1)], np.array([1, None], object), (i for i in [1])]


@pytest.mark.parametrize("at", range(len(BAD_ARMS)))
def test_no_other_arms_are_played(at):
    bandit, wrong = make(), BAD_ARMS[at]
    calls = [lambda: bandit.select(eligible=wrong), lambda: bandit.check(eligible=wrong)]
    if not isinstance(wrong, int):  # [1, 1] is a list for all requests
        calls.append(lambda: bandit.select_many(2, eligible=[wrong, wrong]))
    if not convert.is_row(wrong) or not convert.is_row(wrong[0]):  # otherwise it is a list for each request
        calls.append(lambda: bandit.select_many(2, eligible=wrong))
    for call in calls:
        with pytest.raises(REFUSED):
            call()
    assert bandit.report().decisions == 0


def test_arms_of_every_kind_are_taken():
    bandit = make()
    for arms in ([3], (3,), range(3, 4), np.array([3], np.int8), array.array("H", [3]), [np.uint64(3)], np.ma.array([3], mask=[0]), np.array([3], object)):
        assert bandit.select(eligible=arms).arm == 3
        assert bandit.select_many(eligible=[arms, arms])["arm"].tolist() == [3, 3]


def test_ids_have_64_bits():
    bandit = make(max_segments=8)
    ids = [2**64 - 1, 2**63, 2**63 + 1, 0, 1]
    bandit.select_many(segment=ids)
    assert bandit.report().segments == 5
    for each in ids:
        bandit.segment(each)
    tickets = bandit.select_many(3, segment=0)["ticket"].tolist()
    bandit.update_many([tickets[0], np.uint64(tickets[1]), tickets[2]], [1, 0, True])
    users = make(expected_users=10)
    for wrong in ([-5], [2**64], [0.5], np.array([0.5]), [True], np.ma.array([1, 2], mask=[0, 1]), [[1], [2]]):
        with pytest.raises(REFUSED):
            users.select_many(user=wrong)
        with pytest.raises(REFUSED):
            bandit.update_many(wrong, np.ones(np.shape(wrong)))
    assert users.report().decisions == 0


def test_rewards_are_not_changed():
    bandit = make()
    tickets = bandit.select_many(2)["ticket"]
    wrong = [np.array([1, 0], "M8[s]"), np.array([1, 0], "m8[s]"), np.ma.array([1.0, 0.0], mask=[0, 1]), ["1", "0"], [1.0, None]]
    wrong += [np.array([1j, 0]), np.array(["1", "0"]), [1.0, np.ma.masked], [1.0, np.datetime64(0, "s")], [10**400, 1], {0.0: 1, 1.0: 2}]
    for rewards in wrong:
        with pytest.raises(REFUSED):
            bandit.update_many(tickets, rewards)
    assert bandit.report().answered == 0 and bandit.diagnostics().rejected == 0
    bandit.update_many(tickets, np.ma.array([1.0, 0.0]))
    assert bandit.report().answered == 2


def test_features_are_not_changed():
    bandit = make(features=2, model_per_arm=True)
    wrong = [[1.0, None], [1e300, 0.0], np.array([1e300, 0.0]), [1, "2"], np.ma.array([1.0, 2.0], mask=[0, 1]), np.array([1, 2], "M8[s]"), [1j, 2]]
    for row in wrong:
        for call in (bandit.select, bandit.check, bandit.predict):
            with pytest.raises(REFUSED):
                call(features=row)
        with pytest.raises(REFUSED):
            bandit.select_many(features=[row, row])
    for row in ({0.9: 1.0}, {-1: 1.0}, {2**32: 1.0}, {True: 1.0}, {0: None}, {0: 1e300}, {0: "1"}, {0: np.ma.masked}):
        with pytest.raises(REFUSED):
            bandit.select(sparse=row)
    for name in ("values", "examined"):
        for numbers in (["1"], [None], np.ma.array([1.0], mask=[1]), np.array([1], "m8[s]"), {1.0}, 1.0):
            with pytest.raises(REFUSED):
                make().select(eligible=[1], **{name: numbers})
    assert bandit.report().decisions == 0
    assert bandit.select(features=(1, 2.5)).arm < 4


def test_absent_is_not_zero():
    """User 0 is a person, and segment 0 an hour of the day, like any other. One that was forgotten is refused."""
    users, hours = make(expected_users=10), make(max_segments=24)
    restored = dpb.Bandit.restore(hours.snapshot())
    again = dpb.Bandit.restore(users.snapshot())
    again.stored(again.snapshot())
    other = dpb.Bandit.restore(users.snapshot(), dpb.Config(arms=4, epsilon=1.0, expected_users=10))
    other.stored(other.snapshot())
    resumed = dpb.Bandit.resume(make(expected_users=10).suspend(), dpb.Config(arms=4, epsilon=1.0, expected_users=10, fleet_key=bytes(32)))
    resumed.claimed()
    for bandit, name in [(users, "user"), (hours, "segment"), (restored, "segment"), (again, "user"), (other, "user"), (resumed, "user")]:
        before = bandit.report().decisions
        for rest in ({}, {"eligible": [1]}, {"slots": 1}):
            for call in (bandit.select, bandit.check):
                with pytest.raises(dpb.UnsupportedError, match=f"{name} must be given"):
                    call(**rest)
        for rest in ({}, {"eligible": [1]}):
            with pytest.raises(dpb.UnsupportedError, match=f"{name} must be given"):
                bandit.select_many(2, **rest)
        assert bandit.report().decisions == before
        bandit.check(**{name: 0})
        assert bandit.select(**{name: 0}).arm < 4 and bandit.select(eligible=[1], **{name: 0}).arm == 1
        assert bandit.select_many(2, **{name: 0}).shape == (2,) == bandit.select_many(**{name: [0, 0]}).shape
    for hour in range(24):
        hours.select(segment=hour)
    assert hours.report().segments == 24
    plain = make()
    plain.select(segment=0, user=0)  # as in C: a handle without segments has segment 0
    with pytest.raises(dpb.UnsupportedError):
        plain.select(segment=1)


REQUESTS = [
    {}, {"slots": 2}, {"slots": 0}, {"slots": 2**24 + 1}, {"slots": None}, {"slots": 9}, {"slots": True}, {"segment": 0}, {"segment": 7},
    {"user": 0}, {"user": 3}, {"eligible": [1]}, {"eligible": []}, {"eligible": [9]}, {"values": [1.0] * 4}, {"values": [1.0]},
    {"features": [0.5, 0.5]}, {"features": [1.0]}, {"sparse": {0: 1.0}}, {"sparse": {9: 1.0}}, {"examined": [0.5]},
    {"features": [1.0, 1.0], "sparse": {0: 1.0}}, {"segment": 0, "user": 0},
]  # fmt: skip


@pytest.mark.parametrize("given", [{}, {"max_segments": 4}, {"expected_users": 9}, {"features": 2, "model_per_arm": True}, {"policy": "dp-se"}])
def test_check_passes_what_select_decides(given):
    for request in REQUESTS:
        bandit, errors = make(**{"fleet_key": None, **given}), []
        for call in (bandit.check, bandit.select, bandit.select):
            try:
                call(**request)
                errors.append((None, None))
            except REFUSED as error:
                errors.append((type(error), str(error)))
        assert errors[0] == errors[1] == errors[2], request


def test_a_category_has_no_nul():
    for field, value in (("a\0", "b"), ("a", "b\0c"), ("a", "\0")):
        with pytest.raises(dpb.InvalidRequestError, match="NUL"):
            dpb.feature_hash(field, value, 100)
    assert dpb.feature_hash("device", "phone", 1000) == 627


def test_it_is_imported_without_docstrings():
    program = "import dpb, sys; dpb.Bandit(arms=2, epsilon=1.0).select(); assert 'pycparser' not in sys.modules, exit(1)"
    for optimised in ("-OO", "-O", "-I"):
        subprocess.run([sys.executable, optimised, "-c", program], check=True)
