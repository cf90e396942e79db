"""Decisions, rewards, readers, snapshots, fleets."""

import copy
import gc
import math
import os
import pickle
import sys
import threading
import warnings

import numpy as np
import pytest

import dpb

SEED = bytes(range(32))
KEY = bytes(reversed(range(32)))
CPYTHON = sys.implementation.name == "cpython"


def test_five_lines():
    with dpb.Bandit(arms=10, epsilon=1.0, reward_window=1000) as bandit:
        ad = bandit.select()
        bandit.update(ad.ticket, 1.0)
    assert 0 <= ad.arm < 10 and 0 < ad.propensity <= 1
    with pytest.raises(dpb.ClosedError):
        bandit.select()
    assert bandit.closed and bandit.policy == ""


NEEDS = {
    "dp-ucb-int": {"delta": 1e-6},
    "dp-private-ucb": {},
    "exp3-tau": {"delta": 1e-6},
    "sdp-ae": {"delta": 1e-6},
    "vb-sdp-ae": {"delta": 1e-6},
    "dp-lap": {"base": "nonprivate-exp3"},
    "dp-linear": {"features": 2, "model_per_arm": True},
}


@pytest.mark.parametrize("policy", dpb.policies())
def test_every_policy(policy):
    config = dpb.Config(arms=3, epsilon=1.0, horizon=10_000, **NEEDS.get(policy, {}))
    bandit = dpb.Bandit(config, policy)
    features = {"features": [0.5, 0.5]} if policy == "dp-linear" else {}
    for _ in range(20):
        decision = bandit.select(**features)
        bandit.update(decision.ticket, 1.0)
    report = bandit.report()
    assert (report.policy, report.decisions, bandit.policy) == (policy, 20, policy)
    assert report.is_private == (not policy.startswith("nonprivate"))
    assert policy in repr(bandit) and ("NOT private" in repr(bandit)) == (not report.is_private)
    assert dpb.POLICIES[policy]


def test_it_learns():
    bandit = dpb.Bandit(arms=5, epsilon=1.0, test_seed=SEED)
    coins = np.random.default_rng(1)
    for _ in range(100):
        decisions = bandit.select_many(1000)
        bandit.update_many(decisions["ticket"], coins.random(1000) < np.where(decisions["arm"] == 3, 0.5, 0.1))
    arms = bandit.arms()
    assert arms["pulls"].argmax() == 3 and arms["pulls"][3] > 90_000
    assert arms["pulls"].sum() == bandit.report().decisions == 100_000
    low, high = bandit.lift()
    assert 0 < low < 0.5 / 0.2 - 1 < high
    low, high = bandit.lift(control=0, confidence=0.9)
    assert 0 < low < 4 < high
    low, high = bandit.compare(3, 0)
    assert low < 0.4 < high and arms["mean"][3] == pytest.approx(0.5, abs=0.02)
    assert bandit.epsilon_spent() == bandit.report().epsilon_spent == 1.0


def test_errors_name_the_field():
    for config, words in [
        ({"arms": 1}, "arms must be in 2 .. 2^24, got 1"),
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"arms": -1}, "arms must be"),
        ({"horizon": 1 << 64}, "horizon must be"),
        ({"max_segments": 10, "features": 3}, "max_segments"),
        ({"test_seed": b"short"}, "test_seed must have 32 bytes, got 5"),
        ({"rigorous_index": True}, "rigorous_index"),
        ({"model_per_arm": True}, "model_per_arm"),
        ({"base": "dp-nothing"}, "base must be one of dp-imed"),
    ]:
        with pytest.raises(dpb.InvalidConfigError, match=words.split(" must")[0]) as caught:
            dpb.Bandit(**{"arms": 10, "epsilon": 1.0, **config})
        assert "DPB_" not in str(caught.value), caught.value
        assert words.split(",")[0] in str(caught.value)
        assert isinstance(caught.value, ValueError) and caught.value.status == 2
    with pytest.raises(dpb.InvalidConfigError, match="policy must be one of"):
        dpb.Bandit(arms=10, epsilon=1.0, policy="dp-nothing")
    with pytest.raises(TypeError, match="arms"):
        dpb.Bandit(arms=2.5, epsilon=1.0)
    with pytest.raises(TypeError):
        dpb.Bandit(arms=2)
    with pytest.raises(TypeError, match="not both"):
        dpb.Bandit(dpb.Config(arms=2, epsilon=1.0), arms=3)


def test_a_learned_clip():
    """Every tenth decision earns 10, in a range up to 10,000: the clip is some 3.5 to 7 times that."""
    bandit = dpb.Bandit(arms=3, epsilon=1.0, reward_max=10_000, reward_bits=24, learn_clip=True)
    assert bandit.report().clip == 0
    for number in range(200):
        decisions = bandit.select_many(100)
        bandit.update_many(decisions["ticket"], np.where(np.arange(100) % 10 == number % 10, 10.0, 0.0))
    assert 10 < bandit.report().clip < 200
    with pytest.raises(dpb.UnsupportedError, match="learn_clip"):
        bandit.select(costs=[1.0, 2.0, 3.0])
    with pytest.raises(dpb.InvalidConfigError, match="reward_bits must be 24"):
        dpb.Bandit(arms=3, epsilon=1.0, learn_clip=True)


def test_errors_of_tickets():
    bandit = dpb.Bandit(arms=3, epsilon=1.0)
    ticket = bandit.select().ticket
    with pytest.raises(dpb.InvalidRewardError):
        bandit.update(ticket, 2.0)
    with pytest.raises(dpb.InvalidRewardError):
        bandit.update(ticket, float("nan"))
    bandit.update(ticket, 1)
    with pytest.raises(dpb.DuplicateError):
        bandit.update(ticket, 1.0)
    with pytest.raises(dpb.DuplicateError):
        bandit.cancel(ticket)
    for wrong in (ticket ^ (1 << 20), -1, 1 << 64):
        with pytest.raises(dpb.UnknownTicketError):
            bandit.update(wrong, 1.0)
        with pytest.raises(dpb.UnknownTicketError):
            bandit.cancel(wrong)
    with pytest.raises(TypeError):
        bandit.update("7", 1.0)
    assert bandit.diagnostics().duplicates == 2 and bandit.diagnostics().rejected == 2
    assert {kind.status for kind in dpb.ERRORS.values()} == set(dpb.ERRORS)


def test_parts():
    shop = dpb.Bandit(
        arms=2,
        epsilon=1.0,
        reward_window=10,
        clamp_rewards=True,
        parts={"click": 0.1, "bought": 0.01, "returned": -0.01},
    )
    ticket = shop.select().ticket
    shop.update(ticket, 39.90, part="bought")
    shop.update(ticket, 1)
    for first in ("click", 0, None):
        with pytest.raises(dpb.DuplicateError):
            shop.update(ticket, 1.0, part=first)
    shop.update(ticket, 1e9, part=2)
    with pytest.raises(dpb.InvalidRewardError):
        shop.update(shop.select().ticket, float("nan"), part="bought")
    with pytest.raises(dpb.InvalidConfigError, match="part must be one of 'click', 'bought', 'returned', got 'sold'"):
        shop.update(ticket, 1.0, part="sold")
    with pytest.raises(dpb.InvalidConfigError):
        shop.update(ticket, 1.0, part=3)
    with pytest.raises(TypeError):
        shop.update(ticket, 1.0, part=0.5)
    copied = pickle.loads(pickle.dumps(shop))
    copied.update(copied.select().ticket, 1.0, part="returned")
    restored = dpb.Bandit.restore(shop.snapshot())
    restored.update(restored.select().ticket, 1.0, part=2)
    for wrong in ({f"part {i}": 1.0 for i in range(9)}, {"click": 0.0}, {"click": float("inf")}):
        with pytest.raises(dpb.InvalidConfigError):
            dpb.Bandit(arms=2, epsilon=1.0, reward_window=10, parts=wrong)
    for wrong in ([0.1, 0.2], {1: 0.5}, {"click": "x"}):
        with pytest.raises(TypeError):
            dpb.Bandit(arms=2, epsilon=1.0, reward_window=10, parts=wrong)


def test_requests():
    bandit = dpb.Bandit(arms=6, epsilon=1.0)
    assert {bandit.select(eligible=[2, 4]).arm for _ in range(30)} <= {2, 4}
    assert bandit.select(eligible=np.array([5])).arm == 5
    slots = bandit.select(slots=3)
    assert len(slots) == len({decision.arm for decision in slots}) == 3
    assert len(bandit.select(slots=1)) == 1
    assert len(bandit.select(slots=2, examined=[1, 0.5])) == 2
    assert bandit.select(examined=np.array([0.5])).arm < 6
    bandit.check(slots=2, examined=[1, 0.5])
    assert bandit.select_many(3, slots=2, examined=[1, 0.5]).shape == (3, 2)
    assert bandit.select_many(slots=2, examined=[[1, 0.5], [0.5, 1]]).shape == (2, 2)
    for request, words in [
        ({"eligible": [6]}, "eligible must be below 6, got 6"),
        ({"eligible": []}, "eligible"),
        ({"slots": 7}, "slots"),
        ({"slots": 0}, "slots"),
        ({"values": [1.0] * 5}, "values"),
        ({"values": [1.0] * 5 + [float("nan")]}, "values"),
        ({"eligible": [1, 2], "values": [1.0, -1.0]}, "values"),
        ({"slots": 2, "examined": [1]}, "examined_len must be 2, the number of slots, got 1"),
        ({"examined": [0]}, "examined must be in"),
    ]:
        with pytest.raises(dpb.InvalidRequestError, match=words):
            bandit.select(**request)
        with pytest.raises(dpb.InvalidRequestError, match=words):
            bandit.check(**request)
    for request, words in [({"user": 5}, "expected_users"), ({"segment": 5}, "segment"), ({"features": [1.0]}, "features")]:
        with pytest.raises(dpb.Error, match=words):
            bandit.select(**request)
    with pytest.raises(dpb.InvalidRequestError, match="integers"):
        bandit.select(eligible=np.array([1.5]))
    bandit.check(eligible=[1, 2])
    assert bandit.select(values=[0, 0, 0, 2.5, 0, 0]).arm == 3
    assert bandit.select(eligible=[4, 1], values=np.array([0.0, 7.0])).arm == 1
    assert bandit.select(eligible=[4, 1], values=[0.0, 0.0], costs=[1.0, 0.5]).arm == 1
    nothing = bandit.select(eligible=[4, 1], costs=[2.0, 2.0], abstain=True)
    assert (nothing.arm, nothing.ticket) == (dpb.NO_ARM, 0)
    with pytest.raises(TypeError, match="abstain must be True or False, got 1"):
        bandit.select(abstain=1)
    bandit.cancel(slots[0].ticket)
    bandit.cancel_all()
    assert bandit.report().pending == 0
    with pytest.raises(dpb.InvalidConfigError, match="ticks"):
        bandit.skip(-1)
    late = dpb.Bandit(arms=2, epsilon=1.0, reward_window=9)
    late.update(late.select().ticket, 1.0)
    late.skip(10)
    assert late.report().answered == 1


def test_many_requests():
    bandit = dpb.Bandit(arms=4, epsilon=1.0, max_segments=8)
    decisions = bandit.select_many(segment=np.arange(100) % 8, eligible=[0, 1, 2])
    assert decisions.shape == (100,) and set(decisions["arm"]) <= {0, 1, 2} and len(set(decisions["ticket"])) == 100
    assert bandit.report().segments == 8 and len(bandit.segment(7)) == 4
    each = bandit.select_many(segment=1, eligible=[[i % 4] for i in range(50)])
    assert (each["arm"] == np.arange(50) % 4).all()
    only = np.eye(4)[np.arange(50) % 4]
    assert (bandit.select_many(segment=1, values=only)["arm"] == np.arange(50) % 4).all()
    assert set(bandit.select_many(20, segment=1, eligible=[1, 2], values=[0.0, 3.0])["arm"]) == {2}
    assert set(bandit.select_many(20, segment=1, eligible=[1, 2], values=[0.0, 0.0], costs=[2.0, 1.0])["arm"]) == {2}
    some = bandit.select_many(segment=1, values=np.zeros(4), abstain=np.arange(50) % 2 == 0, costs=[1.0, 1.0, 0.5, 1.0])
    assert (some["arm"] == np.where(np.arange(50) % 2 == 0, dpb.NO_ARM, 2)).all()
    assert bandit.select_many(5, segment=1, slots=2).shape == (5, 2)
    assert bandit.select_many(0, segment=1).shape == (0,)
    with pytest.raises(dpb.FullError, match="segment") as caught:
        bandit.select_many(segment=[1, 2, 99, 3])
    assert len(caught.value.decisions) == 2
    bandit.update_many(decisions["ticket"], np.zeros(100))
    with pytest.raises(dpb.DuplicateError) as caught:
        bandit.update_many([int(decisions["ticket"][0]), each["ticket"][0]], [0, 1])
    assert caught.value.statuses.tolist() == [dpb.DuplicateError.status, 0]
    with pytest.raises(dpb.InvalidRequestError, match="number of requests"):
        bandit.select_many()
    with pytest.raises(dpb.InvalidRequestError, match="number of requests"):
        bandit.select_many(3, segment=[1, 2])
    with pytest.raises(dpb.InvalidRequestError):
        bandit.select_many(-1)
    with pytest.raises(dpb.InvalidConfigError, match="as many"):
        bandit.update_many([1, 2], [0.0])
    with pytest.raises(dpb.InvalidRequestError, match="integers"):
        bandit.update_many(np.array([1.0]), [0.0])


def test_private_features():
    public = np.random.default_rng(3).random((500, 2)) - 0.5
    book = dpb.codebook(public, 8)
    assert book.shape == (8, 2) and book.dtype == np.float32
    assert dpb.codebook(None, 4, features=2).tolist() == [[1, 0], [-1, 0], [0, 1], [0, -1]]
    given = dict(arms=3, epsilon=8.0, features=2, model_per_arm=True, private_features=True, reward_window=10)
    for wrong in ({}, {"codebook": book[:, :1]}, {"codebook": book[0]}, {"codebook": book * np.nan}):
        with pytest.raises(dpb.InvalidConfigError, match="codebook"):
            dpb.Bandit(**{**given, **wrong})
    with pytest.raises(dpb.InvalidConfigError, match="reward_window"):
        dpb.Bandit(**{**given, "codebook": book, "reward_window": 0})
    with pytest.raises(dpb.InvalidConfigError):
        dpb.codebook(public, 501)
    with pytest.raises(dpb.InvalidConfigError):
        dpb.codebook(public[0], 1)
    bandit = dpb.Bandit(codebook=book, **given)
    for row in public.astype(np.float32).repeat(4, axis=0):
        decision = bandit.select(features=row)
        assert np.isnan(decision.propensity)
        bandit.update(decision.ticket, float(decision.arm == (row[0] > 0)))
    report = bandit.report()
    assert report.phase > 2 and report.cancelled == 0 and report.answered == 1990
    assert (bandit.arms()["pulls"] == 0).all() and bandit.arms()["effective_pulls"].max() > 0
    mean, _ = bandit.predict(features=[0.4, 0.0])
    assert mean[1] > mean[0]
    again = dpb.Bandit.restore(bandit.snapshot())
    assert np.allclose(again.predict(features=[0.4, 0.0])[0], mean)


def test_features():
    config = dpb.Config(arms=3, epsilon=4.0, features=4, model_per_arm=True, exploration=0.1)
    bandit = dpb.Bandit(config)
    rows = np.random.default_rng(2).random((200, 4)).astype(np.float32)
    decisions = bandit.select_many(features=rows)
    assert len(decisions) == 200
    bandit.update_many(decisions["ticket"], decisions["arm"] == (rows.argmax(axis=1) % 3))
    one = bandit.select(features=rows[0])
    bandit.update(one.ticket, 1.0)
    index = dpb.feature_hash("device", "phone", 4)
    assert index == bandit.select(sparse={index: 1.0}).arm or index < 4
    assert dpb.feature_cross(index, 1, 4) < 4
    mean, deviation = bandit.predict(features=rows[0])
    assert mean.shape == deviation.shape == (3,) and (deviation > 0).all()
    again, _ = bandit.predict(sparse={i: float(rows[0][i]) for i in range(4)})
    assert np.allclose(mean, again)
    assert bandit.predict(features=rows[0], eligible=[1])[0].shape == (1,)
    with pytest.raises(dpb.InvalidRequestError, match="features"):
        bandit.select(features=rows[:2])
    with pytest.raises(dpb.InvalidRequestError):
        bandit.select(features=[np.nan] * 4)
    weight, deviation = bandit.feature_weights(2)
    assert weight.shape == deviation.shape == (5,) and np.isfinite(weight).all() and (deviation > 0).all()
    with pytest.raises(dpb.InvalidRequestError):
        bandit.feature_weights(3)
    shared = dpb.Bandit(arms=3, epsilon=4.0, features=2)
    assert (shared.feature_weights()[0] == shared.feature_weights(2)[0]).all()
    assert shared.select_many(features=np.ones((7, 3, 2))).shape == (7,)
    assert shared.select(features=np.ones((2, 2)), eligible=[0, 2]).arm in (0, 2)
    assert shared.select(sparse=[{0: 1.0}, {}, {1: 0.5}]).arm < 3
    sparse = pytest.importorskip("scipy.sparse")
    assert shared.select(sparse=sparse.csr_matrix(np.eye(3, 2))).arm < 3


def test_a_lift_by_features_needs_exploration():
    config = {"arms": 3, "epsilon": 4.0, "features": 1, "model_per_arm": True, "test_seed": SEED}
    for exploration in (0.0, 0.2):
        bandit = dpb.Bandit(exploration=exploration, **config)
        for _ in range(20):
            decisions = bandit.select_many(features=np.ones((1000, 1)))
            bandit.update_many(decisions["ticket"], decisions["arm"] == 1)
        if exploration == 0:
            with pytest.raises(dpb.UnsupportedError):
                bandit.lift()
        else:
            low, high = bandit.lift()
            assert 0.5 < low < 2 < high  # 1 in place of 1/3


def test_what_is_contiguous_is_not_copied():
    rows = np.ones((4, 4), np.float32)
    bandit = dpb.Bandit(arms=3, epsilon=4.0, features=4, model_per_arm=True)
    _, kept = bandit._request({"features": rows[1]})
    assert dpb._library.ffi.cast("uintptr_t", kept[0]) == rows.ctypes.data + 16


def test_arms_that_come_and_go():
    bandit = dpb.Bandit(arms=3, epsilon=1.0)
    assert bandit.add_arm() == 3 and bandit.add_arm(id=77) == 4 == bandit.add_arm(id=77)
    bandit.retire_arm(0)
    assert bandit.arms()["active"].tolist() == [0, 1, 1, 1, 1]
    bandit.set_prior(1, 0.3, 100)
    with pytest.raises(dpb.InvalidConfigError, match="strength"):
        bandit.set_prior(1, 0.3, 0)
    for wrong in (0, 99, -1):
        with pytest.raises(dpb.InvalidRequestError):
            bandit.retire_arm(wrong)
    with pytest.raises(dpb.InvalidConfigError):
        bandit.add_arm(id=-1)


def test_a_winner_and_the_test_after_it():
    test = dpb.Bandit(dpb.Config(arms=3, epsilon=1.0, beta=0.01, test_seed=SEED), "dp-tt")

    def play(*rewards):
        with pytest.raises(dpb.NotReadyError):
            test.best_arm()
        for _ in range(20_000):
            decision = test.select()
            test.update(decision.ticket, rewards[decision.arm])
            if test.report().stopped:
                break
        return test.best_arm()

    assert play(0, 1, 0) == 1
    snapshot = test.snapshot()
    test.retire_arm(1)
    assert play(1, 0, 0) == 0
    test.retire_arm(2)
    assert test.best_arm() == 0
    with pytest.raises(dpb.InvalidRequestError):
        test.retire_arm(0)
    assert dpb.Bandit.restore(snapshot).best_arm() == 1
    with pytest.raises(dpb.InvalidConfigError, match="beta must be 0.01, as in the snapshot"):
        dpb.Bandit.restore(snapshot, dpb.Config(arms=3, epsilon=1.0, beta=0.2), "dp-tt")


def test_the_callers_clock():
    bandit = dpb.Bandit(arms=3, epsilon=1.0, clock=dpb.Clock.CALLER, reward_window=1000)
    bandit.advance(1_000_000)
    ticket = bandit.select().ticket
    bandit.update(ticket, 1.0)
    assert bandit.report().pending == 1
    bandit.advance(1_001_000)
    assert bandit.report().answered == 1
    with pytest.raises(dpb.ExpiredError):
        bandit.update(ticket, 1.0)
    with pytest.raises(dpb.InvalidConfigError):
        bandit.advance(-1)


def test_statements():
    with dpb.Bandit(arms=3, epsilon=0.5) as bandit:
        stated = bandit.statement()
        loss = stated["deployment"]["privacy_loss"]
        assert loss["privacy_parameters"] == {"epsilon": 0.5, "delta": 0.0, "rho": None}
        assert stated["libdpb"]["policy"] == "dp-imed" and stated["deployment"]["basic"]["name"] is None
        assert "Not protected: " in bandit.statement_text()
    budget = dpb.Budget(1.0)
    budget.charge(0.75)
    with pytest.raises(dpb.OverBudgetError):
        budget.charge(0.5)
    with pytest.raises(dpb.InvalidConfigError):
        budget.charge(0.1, delta=1.0)
    assert budget.remaining() == 0.25


def test_users_and_budgets():
    budget = dpb.Budget(2.0)
    config = dpb.Config(arms=3, epsilon=0.5, expected_users=1000, budget=budget, budget_periods=2)
    bandit = dpb.Bandit(config)
    bandit.select(user=12345)
    with pytest.raises(dpb.UnsupportedError):
        bandit.select()
    bandit.next_period()
    with pytest.raises(dpb.OverBudgetError):
        bandit.next_period()
    assert budget.spent() == 1.0 and budget.remaining() == 1.0
    with pytest.raises(dpb.OverBudgetError):
        dpb.Bandit(arms=3, epsilon=1.5, budget=budget)
    snapshot = dpb.Bandit(dpb.Config(arms=3, epsilon=1.0, expected_users=10)).snapshot()
    restored = dpb.Bandit.restore(snapshot)
    with pytest.raises(dpb.InvalidConfigError, match="snapshot must be of this very handle"):
        restored.stored(snapshot)
    with pytest.raises(dpb.CorruptError):
        restored.stored(snapshot[1:])
    snapshot = restored.snapshot()
    with pytest.raises(dpb.NotReadyError, match="and then call stored$"):
        restored.select(user=1)
    restored.stored(snapshot)
    restored.select(user=1)
    budget.close()
    with pytest.raises(dpb.InvalidConfigError, match="closed"):
        dpb.Bandit(arms=3, epsilon=0.1, budget=budget)
    with pytest.raises(TypeError):
        pickle.dumps(dpb.Budget(1.0))


def learned(seed=None):
    bandit = dpb.Bandit(arms=3, epsilon=1.0, test_seed=seed)
    for _ in range(20):
        decisions = bandit.select_many(500)
        bandit.update_many(decisions["ticket"], decisions["arm"] == 1)
    return bandit


def test_snapshots_pickles_and_copies():
    bandit = learned()
    before = bandit.arms()
    for other in (
        dpb.Bandit.restore(bandit.snapshot()),
        dpb.Bandit.restore(bandit.snapshot(), dpb.Config(arms=3, epsilon=1.0, reward_window=50)),
        dpb.Bandit.restore(bandit.snapshot(), dpb.Config(arms=3, epsilon=1.0), "dp-imed"),
        pickle.loads(pickle.dumps(bandit)),
        copy.deepcopy(bandit),
        copy.copy(bandit),
    ):
        assert (other.arms()["mean"] == before["mean"]).all()
        with pytest.raises(dpb.UnknownTicketError):
            other.update(bandit.select().ticket, 1.0)
    with pytest.raises(dpb.InvalidConfigError, match="epsilon"):
        dpb.Bandit.restore(bandit.snapshot(), dpb.Config(arms=3, epsilon=2.0))
    with pytest.raises(dpb.CorruptError):
        dpb.Bandit.restore(bandit.snapshot()[:-1])
    with pytest.raises(TypeError):
        dpb.Bandit.restore(bandit.snapshot(), policy="dp-imed")
    with pytest.raises(dpb.UnsupportedError):
        pickle.dumps(dpb.Bandit(arms=3, epsilon=1.0, policy="dp-ucb"))


def test_no_copy_doubles_what_people_contribute():
    counted = dpb.Config(arms=3, epsilon=1.0, expected_users=10, fleet_key=KEY)
    charged = dpb.Config(arms=3, epsilon=1.0, fleet_key=KEY, budget=dpb.Budget(9.0))
    of_counted, of_charged = (dpb.Bandit(config).snapshot() for config in (counted, charged))
    unready = dpb.Bandit.restore(of_counted)
    for bandit in (
        dpb.Bandit(counted),
        dpb.Bandit(charged),
        unready,
        dpb.Bandit.restore(of_counted, counted),
        dpb.Bandit.restore(of_charged, charged),
        dpb.Bandit.resume(dpb.Bandit(counted).suspend(), counted),
        dpb.Bandit.resume(dpb.Bandit(charged).suspend(), charged),
    ):
        for double in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="second bandit"):
                double(bandit)
    with pytest.raises(dpb.NotReadyError):
        unready.select(user=1)  # no snapshot was taken
    # Without them: with a context, segments or features too.
    for fields in ({}, {"max_segments": 3}, {"features": 2}, {"fleet_key": KEY}):
        copy.copy(dpb.Bandit(dpb.Config(arms=3, epsilon=1.0, **fields)))


def test_resumed_bandits_are_charged_the_difference():
    budget = dpb.Budget(3.0)

    def periods(number, budget):
        return dpb.Config(
            arms=3, epsilon=2.0, fleet_key=KEY, expected_users=10, budget_periods=number, budget=budget
        )

    bandit = dpb.Bandit(periods(1, budget))
    snapshot, state = bandit.snapshot(), bandit.suspend()
    with pytest.raises(dpb.OverBudgetError, match="overspent: 100"):
        dpb.Bandit.resume(state, periods(50, budget))
    dpb.Bandit.resume(state, periods(1, budget))
    assert budget.spent() == 2.0
    another = dpb.Budget(5.0)
    restored = dpb.Bandit.restore(snapshot, periods(2, another))
    dpb.Bandit.resume(restored.suspend(), periods(2, another))
    assert another.spent() == 4.0


def test_fleets():
    a, b = (dpb.Bandit(arms=3, epsilon=1.0, fleet_key=KEY, node=node) for node in (1, 2))
    a.merge(learned().snapshot())
    with pytest.raises(dpb.CorruptError):
        a.merge(b"")
    generation = a.lead()
    assert a.report().duty is dpb.Duty.LEADS
    decisions = b.select_many(300)
    assert {dpb.ticket_node(ticket) for ticket in decisions["ticket"]} == {2}
    b.update_many(decisions["ticket"], decisions["arm"] == 1)
    contribution = b.contribution(generation)
    a.combine(contribution)
    with pytest.raises(dpb.DuplicateError):
        a.combine(contribution)
    assert b.contribution(generation) == b""
    assert a.report().contributions == 1 and b.report().duty is dpb.Duty.CONTRIBUTES
    b.alone()
    assert b.open(a.seal(b"a click")) == b"a click"
    with pytest.raises(dpb.CorruptError):
        b.open(b"nothing")


def test_states_move():
    config = dpb.Config(arms=3, epsilon=1.0, fleet_key=KEY)
    old, keeper = dpb.Bandit(config), dpb.Bandit(config)
    decision = old.select()
    state = old.suspend(keeper.receiver())
    with pytest.raises(dpb.HaltedError):
        old.select()
    new = dpb.Bandit.resume(state, config)
    with pytest.raises(dpb.ExpiredError):
        dpb.Bandit.resume(state, config)
    new.update(decision.ticket, 1.0)
    last = dpb.Bandit.resume(new.suspend(), config)
    with pytest.raises(dpb.NotReadyError):
        last.select()
    last.claimed()
    with pytest.raises(dpb.DuplicateError):
        last.update(decision.ticket, 1.0)
    last.lead()
    last.set_handles(2)


def test_sums_and_stopping_rules():
    with dpb.Counter("hybrid", 1.0) as counter:
        for _ in range(1000):
            counter.add(1.0)
        assert abs(counter.read() - 1000) < 600 and counter.is_private  # some 30 deviations
    with pytest.raises(dpb.InvalidConfigError, match="kind"):
        dpb.Counter("other", 1.0)
    counter = dpb.Counter("binary", 1.0, horizon=1, test_seed=SEED)
    counter.add(0.5)
    with pytest.raises(dpb.HaltedError):
        counter.add(0.5)
    assert not counter.is_private
    for rule in ("nas", "dp-nas", "dp-exp-nas"):
        stopping = dpb.Stopping(rule, 100.0, 0.2, 0.01)
        with pytest.raises(dpb.NotReadyError):
            stopping.mean()
        while not stopping.push(60.0):
            pass
        assert stopping.mean() == pytest.approx(60.0, rel=0.2)
        assert stopping.is_private == (rule != "nas")
    with pytest.raises(dpb.InvalidConfigError, match="alpha"):
        dpb.Stopping("dp-nas", 1.0, 2.0, 0.1)


def test_the_shuffle_model_and_the_local_model():
    server = dpb.Bandit(arms=3, epsilon=1.0, delta=1e-6, horizon=100_000, policy="sdp-ae")
    ad = server.select()
    plan = server.shuffle_params(ad.phase)
    shuffler = dpb.Shuffler(plan)
    for _ in range(plan.users):
        shuffler.push(dpb.shuffle_encode(plan, 1.0))
    server.submit_shuffled(ad.phase, ad.arm, shuffler.take())
    with pytest.raises(dpb.NotReadyError):
        shuffler.take()
    with pytest.raises(dpb.DuplicateError):
        server.submit_shuffled(ad.phase, ad.arm, bytes(plan.users * (1 + plan.coins_per_user)))
    plan = dpb.shuffle_plan(1.0, 1e-6, 10_000)
    assert plan.users == 10_000 and len(dpb.shuffle_encode(plan, 0.0)) == 1 + plan.coins_per_user
    device = dpb.Bandit(arms=3, epsilon=1.0, policy="ldp-klucb")
    device.update(device.select().ticket, dpb.ldp_encode(1.0, 0.5))


def test_a_test_seed_is_reproducible_and_warns():
    with pytest.warns(dpb.NotPrivateWarning):
        dpb.Bandit(arms=3, epsilon=1.0, test_seed=SEED)
    assert "test_seed" not in repr(dpb.Config(arms=3, epsilon=1.0, test_seed=SEED, fleet_key=KEY))
    one, two = learned(SEED), learned(SEED)
    assert (one.arms() == two.arms()).all() and not one.report().is_private
    with warnings.catch_warnings():
        warnings.simplefilter("error", dpb.NotPrivateWarning)
        dpb.Bandit(arms=3, epsilon=1.0)


def test_threads_share_a_bandit_and_close_it():
    bandit = dpb.Bandit(arms=5, epsilon=1.0, pending_capacity=1 << 16)
    tickets = []

    def work():
        own = [bandit.select().ticket for _ in range(2000)]
        many = bandit.select_many(2000)["ticket"].tolist()
        for ticket in own:
            bandit.update(ticket, 1.0)
        bandit.update_many(many, np.ones(2000))
        tickets.extend(own + many)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(tickets)) == 16_000 == bandit.report().answered

    closed = []

    def until_closed():
        try:
            while True:
                bandit.select_many(100)
                bandit.select()
        except dpb.ClosedError:
            closed.append(1)

    threads = [threading.Thread(target=until_closed) for _ in range(4)]
    for thread in threads:
        thread.start()
    bandit.close()
    for thread in threads:
        thread.join()
    assert len(closed) == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_gets_a_clear_error():
    bandit = learned()
    snapshot = bandit.snapshot()
    child = os.fork()
    if child == 0:
        try:
            for call in (bandit.select, bandit.report, lambda: bandit.select_many(3), bandit.snapshot):
                try:
                    call()
                except dpb.ForkedError as error:
                    assert "os.fork()" in str(error)
                else:
                    os._exit(1)
            dpb.Bandit.restore(snapshot).select()
            bandit.close()
            gc.collect()
            os._exit(0)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    bandit.select()


@pytest.mark.skipif(not CPYTHON, reason="sets the thresholds of CPython's collector")
def test_a_collector_that_runs_all_the_time():
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        bandit = dpb.Bandit(arms=3, epsilon=1.0, features=2, model_per_arm=True)
        for _ in range(300):
            decision = bandit.select(features=np.ones(2, np.float32) / 2)
            bandit.update(decision.ticket, 1.0)
            bandit.select_many(features=np.ones((3, 2)) / 4)
            bandit.predict(sparse={0: 1.0})
            dpb.Bandit(arms=3, epsilon=1.0, budget=dpb.Budget(2.0))
        assert bandit.report().decisions == 1200
    finally:
        gc.set_threshold(*threshold)


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_ten_million_decisions_take_no_memory():
    bandit = dpb.Bandit(arms=10, epsilon=1.0, reward_window=1000)
    coins = np.random.default_rng(3)

    def play(rounds):
        for _ in range(rounds):
            decisions = bandit.select_many(10_000)
            clicked = coins.random(10_000) < 0.05
            clicked[:9_000] = False  # their window is over
            bandit.update_many(decisions["ticket"][clicked], np.ones(clicked.sum()))

    play(100)
    gc.collect()
    before = resident()
    play(900)
    gc.collect()
    assert bandit.report().decisions == 10_000_000
    # The decisions of the 900 rounds take 216 MB. PyPy's own heap differs by some 40 MB.
    assert resident() - before < (8 if sys.implementation.name == "cpython" else 64) << 20


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_handles_are_freed():
    def make(n):
        for _ in range(n):
            bandit = dpb.Bandit(arms=1000, epsilon=1.0, pending_capacity=1 << 16)  # some 1.2 MB
            bandit.select()

    make(20)
    gc.collect()
    before = resident()
    make(300)
    gc.collect()
    assert resident() - before < 64 << 20


def test_a_verdict_says_what_a_test_found():
    config = dpb.Config(arms=2, epsilon=4.0, tolerance=0.1, planned_end=100_000, control_share=0.5, test_seed=bytes(32))
    test = dpb.Bandit(config, "dp-tt")
    begun = test.verdict()
    assert begun.state is dpb.TestState.RUNNING and math.isnan(begun.low) and begun.arms == 2
    assert str(begun) == begun.text == "The test goes on after 0 rewards. Arm 0 leads."
    while test.verdict().state is dpb.TestState.RUNNING:
        decision = test.select()
        test.update(decision.ticket, float(decision.arm))
    said = test.verdict()
    assert said.state is dpb.TestState.WON and (said.leader, said.other, said.mismatch, said.more) == (1, 0, False, 0.0)
    assert 0.5 < said.low < said.high <= 1.0 and said.confidence == 0.95
    assert str(said).startswith("Arm 1 is the best of 2, after ") and str(said).endswith(" (95%).")
    with pytest.raises(dpb.UnsupportedError):
        dpb.Bandit(dpb.Config(arms=2, epsilon=1.0)).verdict()


def test_a_sticky_test_shows_a_person_one_arm():
    test = dpb.Bandit(dpb.Config(arms=3, epsilon=1.0, sticky=7, expected_users=100), "dp-tt")
    arms = [{test.select(user=user).arm for _ in range(3)} for user in range(1, 51)]
    assert all(len(seen) == 1 for seen in arms) and len(set.union(*arms)) == 3
