"""What privacy would cost: simulations, replays, estimates."""

import json
import math
import signal
import sys
import threading
import time
import types
from pathlib import Path

import numpy as np
import pytest

import dpb

COINS = np.random.default_rng(5)
N, K = 20_000, 4
RATES = np.array([0.1, 0.5, 0.2, 0.3])


def make_log(n=N):
    arm = COINS.integers(0, K, n)
    return {
        "arm": arm,
        "propensity": np.full(n, 1 / K),
        "reward": (COINS.random(n) < RATES[arm]).astype(float),
        "features": COINS.random((n, 3)).astype(np.float32),
    }


LOG = make_log()


def rows(table):
    return [tuple(row.values()) for row in table]


def test_a_replay_finds_the_best_arm():
    table = dpb.replay(LOG, ["dp-imed", "nonprivate-imed"], [0.25, 2.0])
    assert [row["policy"] for row in table] == ["the log's own", "even rotation", "dp-imed", "dp-imed", "nonprivate-imed"]
    logged, rotation, low, high, none = table
    assert logged["dr"] == pytest.approx(LOG["reward"].mean())
    for row in (low, high, none):
        # Learning costs little here. 5000 decisions are played.
        assert 0.4 < row["dr"] - row["dr_width"] and row["dr"] + row["dr_width"] < 0.52
        assert row["ips"] == pytest.approx(row["dr"], abs=0.03)
    assert none["epsilon"] is None and high["epsilon"] == 2.0
    assert low["played"] == pytest.approx(N / K, rel=0.1)
    # All three find the arm in 5000 decisions.
    [note] = table.notes
    assert "no two policies can be told apart" in note and "5000 of 20000 decisions" in note
    assert table.dr.shape == (5,) and math.isnan(table.epsilon[0]) and table.policy[2] == "dp-imed"
    assert "dp-imed" in repr(table) and "<table>" in table._repr_html_() and len(table) == 5


def test_frames_files_and_memory_give_the_same(tmp_path):
    log = make_log(2000)
    log["arm"] = np.array(["c", "a", "b", "x"])[log["arm"]]
    wanted = rows(dpb.replay(log, epsilons=1.0, runs=2))
    assert len(wanted) == 6
    path = tmp_path / "log.jsonl"
    lines = zip(*(log[name].tolist() for name in log))
    path.write_text("".join(json.dumps(dict(zip(log, line))) + "\n" for line in lines))
    assert rows(dpb.replay(path, epsilons=1.0, runs=2)) == wanted
    assert rows(dpb.replay(str(path), epsilons=[1], runs=2, threads=1)) == wanted
    for module, make in [
        ("pandas", lambda m: m.DataFrame({**log, "features": list(log["features"])})),
        ("polars", lambda m: m.DataFrame(log)),
        ("pyarrow", lambda m: m.table({name: list(column) for name, column in log.items()})),
    ]:
        try:
            frame = make(__import__(module))
        except ImportError:
            continue
        assert rows(dpb.replay(frame, epsilons=1.0, runs=2)) == wanted, module
    columns = {**log, **{f"x{i}": log["features"][:, i] for i in range(3)}}
    del columns["features"]
    assert rows(dpb.replay(columns, epsilons=1.0, runs=2, features=["x0", "x1", "x2"])) == wanted
    feedback = {"n_rounds": 2000, "action": log["arm"], "reward": log["reward"], "pscore": log["propensity"]}
    feedback["context"] = log["features"]
    assert rows(dpb.replay(feedback, epsilons=1.0, runs=2)) == wanted


def test_eligible_arms(tmp_path):
    log = make_log(1000)
    del log["features"]
    log["eligible"] = [sorted({arm, 0, 1}) for arm in log["arm"].tolist()]
    path = tmp_path / "log.csv"
    lines = (f"{a},{p},{r},{' '.join(map(str, e))}\n" for a, p, r, e in zip(*(log[name] for name in log)))
    path.write_text("arm,propensity,reward,eligible\n" + "".join(lines))
    wanted = rows(dpb.replay(path, "dp-imed", 1.0))
    assert rows(dpb.replay(log, "dp-imed", 1.0)) == wanted
    log["values"] = [[1.0 + arm for arm in arms] for arms in log["eligible"]]
    lines = (f"{a},{p},{r},{' '.join(map(str, e))},{' '.join(map(str, v))}\n" for a, p, r, e, v in zip(*(log[name] for name in log)))
    path.write_text("arm,propensity,reward,eligible,values\n" + "".join(lines))
    valued = rows(dpb.replay(path, "dp-imed", 1.0))
    assert rows(dpb.replay(log, "dp-imed", 1.0)) == valued != wanted
    with pytest.raises(dpb.InvalidConfigError, match="values must have a number for each"):
        dpb.replay({**log, "values": log["values"][:-1] + [[1.0]]})
    log["costs"] = [[0.1 * arm for arm in arms] for arms in log["eligible"]]
    costed = rows(dpb.replay(log, "dp-imed", 1.0))
    assert costed != valued and rows(dpb.replay({**log, "costs": [[0.0] * len(e) for e in log["eligible"]]}, "dp-imed", 1.0)) == valued
    with pytest.raises(dpb.InvalidConfigError, match="costs must have a number for each"):
        dpb.replay({**log, "costs": log["costs"][:-1] + [[1.0]]})
    del log["values"], log["costs"]
    log["eligible"][7] = [int(log["arm"][7]) ^ 1]
    with pytest.raises(dpb.InvalidConfigError, match="row 7: eligible: lacks the arm"):
        dpb.replay(log)


def test_examined_slots(tmp_path):
    log = make_log(4000)
    del log["features"]
    log["examined"] = np.where(COINS.random(4000) < 0.5, 0.25, 1.0)
    log["reward"] *= COINS.random(4000) < log["examined"]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(dict(zip(log, line))) + "\n" for line in zip(*(log[name].tolist() for name in log))))
    wanted = dpb.replay(path, "dp-imed", 1.0)
    blind = dpb.replay({name: log[name] for name in ("arm", "propensity", "reward")}, "dp-imed", 1.0)
    assert rows(dpb.replay(log, "dp-imed", 1.0)) == rows(wanted) != rows(blind)
    assert wanted[0]["dr"] == pytest.approx(log["reward"].mean())
    assert "dp-med: this policy does not support examined" in dpb.replay(log, ["dp-imed", "dp-med"], 1.0).notes[0]
    with pytest.raises(dpb.InvalidConfigError, match="row 3: examined: 0 is not a probability"):
        dpb.replay({**log, "examined": np.where(np.arange(4000) == 3, 0, 1)})
    with pytest.raises(dpb.InvalidConfigError, match="examined must have 4000 numbers"):
        dpb.replay({**log, "examined": [1.0]})


def test_bad_logs_are_refused():
    for change, words in [
        ({"reward": np.full(N, 2.0)}, r"row 0: reward: 2 is not in 0..=1 \(reward_min, reward_max\)"),
        ({"propensity": np.zeros(N)}, "row 0: propensity"),
        ({"propensity": np.ones(3)}, "propensity must have 20000 numbers"),
        ({"arm": np.zeros(N, int)}, "only one arm"),
        ({"features": np.full((N, 2), np.nan)}, "features"),
        ({"features": np.ones((N, 300))}, "features: 300 numbers are more than 256"),
        ({"features": np.ones(N)}, "features must have shape"),
    ]:
        with pytest.raises(dpb.InvalidConfigError, match=words):
            dpb.replay({**LOG, **change})
    with pytest.raises(dpb.InvalidConfigError, match="no column reward"):
        dpb.replay({"arm": [0, 1], "propensity": [0.5, 0.5]})
    with pytest.raises(dpb.InvalidConfigError, match="no column reward"):
        dpb.replay({"action": [0, 1], "pscore": [0.5, 0.5]})
    with pytest.raises(dpb.InvalidConfigError, match="no decision"):
        dpb.replay({"arm": [], "propensity": [], "reward": []})
    with pytest.raises(dpb.InvalidConfigError, match="policy"):
        dpb.replay(LOG, "dp-nothing")
    with pytest.raises(dpb.InvalidConfigError, match="epsilon"):
        dpb.replay(LOG, epsilons=-1)
    with pytest.raises(dpb.InvalidConfigError, match="no/such/file"):
        dpb.replay("no/such/file")


def test_missing_arms_are_refused():
    pandas = None
    try:
        import pandas
    except ImportError:
        pass
    names = ["a", "b", "c", "d"]
    log = {"propensity": [0.5] * 4, "reward": [1.0, 0.0, 1.0, 0.0]}
    missing = [None, math.nan, np.float64("nan"), np.ma.masked, np.datetime64("NaT"), "", 0.5, 2.0**53, b"a", ("a",)]
    missing += [pandas.NA, pandas.NaT] if pandas else []
    for one in missing:
        with pytest.raises(dpb.InvalidConfigError, match="arm: row 2 is"):
            dpb.replay({**log, "arm": [*names[:2], one, names[3]]}, "dp-imed", 1.0)
        if isinstance(one, (str, bytes, tuple)) or one is np.ma.masked:
            continue
        with pytest.raises(dpb.InvalidConfigError, match="eligible: row 1: row 2 is"):
            dpb.replay({**log, "arm": names, "eligible": [names, ["a", "b", one], names, names]}, "dp-imed", 1.0)
    for arms in (np.array([0, 1, math.nan, 1]), np.ma.array([0, 1, 0, 1], mask=[0, 0, 1, 0]), np.array([["a", "b"]] * 4), "abcd"):
        with pytest.raises(dpb.InvalidConfigError, match="arm"):
            dpb.replay({**log, "arm": arms}, "dp-imed", 1.0)
    if pandas:
        for kind in ("string", "category", object):
            with pytest.raises(dpb.InvalidConfigError, match="arm: row 2 is"):
                dpb.replay({**log, "arm": pandas.Series(["a", "b", None, "a"], dtype=kind)}, "dp-imed", 1.0)
        with pytest.raises(dpb.InvalidConfigError, match="arm: row 2 is"):
            dpb.replay(pandas.DataFrame({**log, "arm": pandas.array([1, 2, None, 1], dtype="Int64")}), "dp-imed", 1.0)
    wanted = rows(dpb.replay({**log, "arm": [0, 1, 0, 1]}, "dp-imed", 1.0))
    for arms in ([0.0, 1.0, 0.0, 1.0], np.array([0.0, 1.0, 0.0, 1.0]), [False, True, False, True], ["a", "b", "a", "b"], [2**63, 2**63 + 1] * 2):
        assert rows(dpb.replay({**log, "arm": arms}, "dp-imed", 1.0)) == wanted


def test_columns_are_not_changed():
    log = {"arm": [0, 1, 0, 1], "propensity": [0.5] * 4, "reward": [1.0, 0.0, 1.0, 0.0]}
    for name, wrong in [
        ("reward", np.array([1, 0, 1, 0], "M8[s]")),
        ("reward", np.array([1, 0, 1, 0], "m8[s]")),
        ("reward", np.ma.array([1.0, 0.0, 1.0, 0.0], mask=[0, 0, 0, 1])),
        ("reward", [1.0, 0.0, None, 0.0]),
        ("reward", ["1", "0", "1", "0"]),
        ("propensity", np.ma.array([0.5] * 4, mask=[0, 0, 0, 1])),
        ("examined", ["1"] * 4),
        ("features", [[1.0], [None], [1.0], [1.0]]),
        ("features", [[1.0], [1.0, 2.0], [1.0], [1.0]]),
        ("features", np.array([[1]] * 4, "M8[s]")),
    ]:
        with pytest.raises(dpb.InvalidConfigError, match=name):
            dpb.replay({**log, name: wrong}, "dp-imed", 1.0)
    lists = [[0, 1]] * 4
    for others in ({"eligible": lists[:3]}, {"eligible": lists + lists}, {"eligible": lists, "values": [[1.0, 1.0]] * 3}):
        with pytest.raises(dpb.InvalidConfigError, match=r"must have 4 rows, got \d"):
            dpb.replay({**log, **others}, "dp-imed", 1.0)
    with pytest.raises(dpb.InvalidConfigError, match="values: row 0"):
        dpb.replay({**log, "eligible": lists, "values": [["1", "1"]] * 4}, "dp-imed", 1.0)
    with pytest.raises(dpb.InvalidConfigError, match="eligible: row 0"):
        dpb.replay({**log, "arm": ["0"] * 4, "eligible": ["01"] * 4}, "dp-imed", 1.0)


def test_the_number_of_actions_counts():
    feedback = {"action": np.array([3, 1] * 500), "pscore": np.full(1000, 0.25), "reward": np.zeros(1000)}
    two = dpb.replay(feedback, "dp-imed", 1.0)
    four = dpb.replay({**feedback, "n_actions": 4}, "dp-imed", 1.0)
    assert "2 arms" in two.title and "4 arms" in four.title
    assert any("propensity 0" in note for note in four.notes)  # actions 0 and 2 were never played
    for wrong in (3, 0, -1):
        with pytest.raises(dpb.InvalidConfigError, match="n_actions"):
            dpb.replay({**feedback, "n_actions": wrong}, "dp-imed", 1.0)
    with pytest.raises(TypeError, match="n_actions"):
        dpb.replay({**feedback, "n_actions": 4.0}, "dp-imed", 1.0)


def test_a_log_that_tells_nothing_apart_says_so():
    coins = np.random.default_rng(11)
    arm = coins.integers(0, 40, 40_000)
    log = {"arm": arm, "propensity": np.full(len(arm), 1 / 40), "reward": (coins.random(len(arm)) < 0.05) * 1.0}
    table = dpb.replay(log, ["dp-imed", "dp-med"], [0.1, 2.0], runs=2)
    assert [note for note in table.notes if "no two policies can be told apart" in note and "1000 of 40000" in note]
    assert not [note for note in dpb.replay(log, "dp-imed", 1.0, runs=2).notes if "told apart" in note]  # there is one
    # A policy that has no time to learn, and one that has.
    arm = coins.integers(0, 2, 20_000)
    log = {"arm": arm, "propensity": np.full(len(arm), 0.5), "reward": (coins.random(len(arm)) < np.array([0.0, 1.0])[arm]) * 1.0}
    table = dpb.replay(log, ["dp-imed", "nonprivate-imed"], 0.001)
    assert table.dr[3] - table.dr[2] > table.dr_width[2] + table.dr_width[3] and table.notes == []


def test_people_are_limited():
    service = {"arms": 4, "rate": 0.5, "decisions": 20_000, "policies": ["dp-imed", "nonprivate-imed"], "epsilons": 4, "runs": 4}
    free = dpb.simulate(**service)
    # A hundred people have 200 decisions each: of these, one counts for ever, or one in each of ten periods.
    ever = dpb.simulate(**service, people=100)
    often = dpb.simulate(**service, people=100, period=2000)
    assert free.lost[0] < often.lost[0] / 2 < ever.lost[0] / 2
    assert free.lost[1] == ever.lost[1] == often.lost[1]  # it protects nobody, and is not limited
    many = dpb.simulate(**service, people=100, users_limit=200)
    assert many.lost[0] < ever.lost[0]
    for wrong, words in [({"people": 0}, "people"), ({"period": 5}, "period: has no meaning"), ({"people": 9, "processes": 2}, "processes")]:
        with pytest.raises(dpb.InvalidConfigError, match=words):
            dpb.simulate(**service, **wrong)


def test_a_simulation():
    table = dpb.simulate(arms=4, rate=0.5, decisions=5000, policies=["dp-imed", "dp-ucb"], epsilons=[0.5, 4], runs=4)
    assert [row["policy"] for row in table] == ["dp-imed"] * 2 + ["dp-ucb"] * 2
    lost = table.lost
    assert lost[0] > lost[1] and (table.simulated == 5000).all() and (table.runs == 4).all()
    again = dpb.simulate(arms=4, rate=0.5, decisions=5000, policies="dp-imed", epsilons="0.5,4", runs=4, threads=1)
    assert (again.lost == lost[:2]).all()
    with pytest.raises(dpb.InvalidConfigError, match="worst: 0.9 is not below rate, 0.5"):
        dpb.simulate(rate=0.5, worst=0.9)
    test = dpb.simulate_test(3, 0.6, worst=0.3, decisions=20_000, epsilons=[0.1, 1], runs=20, confidence=0.9)
    assert (test.ended == 20).all() and test.decisions[0] > test.decisions[1] > 50 and (test.late > test.decisions).all()
    assert (test.wrong <= 6).all()
    assert dpb.simulate_test(rate=0.5, worst=0.499, decisions=300, days=1, epsilons=1, runs=3)[0]["decisions"] is None
    euros = dict(amount=5.0, spread=0.5, reward_max=20.0, tolerance=1.0, epsilons=1, runs=10)
    test = dpb.simulate_test(rate=0.6, worst=0.3, decisions=20_000, **euros)
    assert test.ended[0] == 10 and test.wrong[0] <= 3 and 50 < test.decisions[0] < 20_000
    left = dpb.simulate(arms=4, decisions=2000, policies=["dp-imed", "exp3-tau"], epsilons=1, runs=2)
    assert len(left) == 1 and "exp3-tau" in left.notes[0]


def test_long_work_can_be_interrupted():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    for long_work in (
        lambda: dpb.simulate(decisions=1 << 40, seconds=1e6),
        lambda: dpb.simulate_test(rate=0.5, worst=0.4999999, decisions=1 << 40, seconds=1e6),
    ):
        before = set(threading.enumerate())
        timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            long_work()
        timer.join()
        # The work has ended with the call. Its thread may still end.
        for thread in set(threading.enumerate()) - before:
            thread.join(60)
            assert not thread.is_alive()


def test_long_work_shows_its_progress(monkeypatch):
    class Bar:
        """tqdm's: after the first steps somebody interrupts the work."""

        def __init__(self, total, desc, **_):
            self.n, self.total, self.closed = 0, total, False
            bars.append((desc, self))

        def update(self, steps):
            assert steps >= 0
            self.n += steps
            if self.n > 10:
                raise KeyboardInterrupt

        def close(self):
            self.closed = True

    bars = []
    module = types.ModuleType("tqdm.auto")
    module.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with pytest.raises(KeyboardInterrupt):
        dpb.simulate(decisions=1 << 40, seconds=100)
    [(title, bar)] = bars
    assert title == "simulating" and 10 < bar.n <= bar.total == 1000 and bar.closed


def test_costs_are_simulated():
    """A decision that may choose no arm loses no more than all that the best arms win, though most arms cost too much."""
    options = {"decisions": 20_000, "runs": 2, "seed": 3, "epsilons": 4.0, "policies": "dp-imed", "progress": False}
    table = dpb.simulate(4, 0.5, costs=1.0, abstain=True, **options)
    assert table.percent[0] < 20
    with pytest.raises(dpb.InvalidConfigError, match="abstain: has no meaning without costs"):
        dpb.simulate(4, 0.5, abstain=True, **options)


def test_a_router_plays_for_worth(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "examples/python")
    import router

    uniform, private = (router.play(player, 5000, 1)[-1] for player in (router.Uniform(1), router.Private(4.0)))
    assert private < 0.5 * uniform
    replayed = dpb.replay(router.log(2000, 1), "dp-imed", 4.0, progress=False)
    assert replayed.dr[-1] > replayed.dr[1]  # than an even rotation


@pytest.mark.long
def test_a_million_rows_take_some_passes_of_numpy():
    """A replay of a million rows in two seconds on two cores: processor time of 25 runs, as a ratio to a pass of numpy over
    the same columns, in one run. It takes some 23 passes a run; 80 would be two seconds."""
    n = 1_000_000
    arm = COINS.integers(0, 10, n)
    log = {"arm": arm, "propensity": np.full(n, 0.1), "reward": (COINS.random(n) < np.linspace(0.05, 0.01, 10)[arm]) * 1.0}

    def seconds(work, times):
        best = math.inf
        for _ in range(times):
            start = time.process_time()
            work()
            best = min(best, time.process_time() - start)
        return best

    one = seconds(lambda: np.bincount(log["arm"], log["reward"] / log["propensity"], 10), 20)
    replay = seconds(lambda: dpb.replay(log, "dp-imed", [0.1, 0.25, 0.5, 1, 2], progress=False), 2)
    assert replay / 25 < 80 * one, (replay, one)


def test_estimates():
    weights = (LOG["arm"] == 1).astype(float)
    found = dpb.estimate(LOG["reward"], LOG["propensity"], weights)
    ratio = weights / LOG["propensity"]
    assert found.ips.mean == pytest.approx((ratio * LOG["reward"]).mean())
    assert found.ips.width == pytest.approx(1.96 * (ratio * LOG["reward"]).std() / math.sqrt(N))
    assert found.snips.mean == pytest.approx((ratio * LOG["reward"]).sum() / ratio.sum())
    for one in found:
        assert abs(one.mean - 0.5) < 2.5 * one.width  # 5 deviations
    model = dpb.estimate(LOG["reward"], LOG["propensity"], weights, predicted=RATES[LOG["arm"]], expected=0.5)
    assert model.dr.width < found.ips.width and abs(model.dr.mean - 0.5) < 2.5 * model.dr.width
    for bad in [([], [], []), ([1.0], [0.0], [1.0]), ([1.0], [1.0], [2.0]), ([1.0], [1.0, 1.0], [1.0]), ([math.nan], [1], [1])]:
        with pytest.raises(dpb.InvalidConfigError):
            dpb.estimate(*bad)
    with pytest.raises(dpb.InvalidConfigError):
        dpb.estimate([1.0], [1.0], [1.0], predicted=[1.0])
    for names in ({"predicted": [1.0, 2.0], "expected": 1.0}, {"predicted": 1.0, "expected": [math.nan]}):
        with pytest.raises(dpb.InvalidConfigError, match="must be a finite number, or as many"):
            dpb.estimate([1.0], [1.0], [1.0], **names)


def test_an_estimate_has_no_width_where_nothing_is_known():
    one = dpb.estimate([1.0], [0.5], [1.0])
    assert one.ips.mean == 2.0 and one.snips.mean == 1.0 and all(math.isnan(each.width) for each in one)
    # Of three decisions the policy makes one, or none.
    one = dpb.estimate([1.0, 0.0, 1.0], [0.5] * 3, [1.0, 0.0, 0.0])
    assert one.snips.mean == 1.0 and all(math.isnan(each.width) for each in one)
    none = dpb.estimate([1.0, 0.0, 1.0], [0.5] * 3, [0.0] * 3)
    assert math.isnan(none.snips.mean) and all(math.isnan(each.width) for each in none)
    two = dpb.estimate([1.0, 0.0, 1.0], [0.5] * 3, [1.0, 1.0, 0.0])
    assert all(each.width > 0 for each in two)
    for least in (5e-324, 1e-320):
        with pytest.raises(dpb.InvalidConfigError, match="propensities must not be so small"):
            dpb.estimate([1.0, 1.0], [least, 0.5], [1.0, 1.0])
    tiny = dpb.estimate([1.0, 0.0], [1e-200, 0.5], [1.0, 1.0])  # its square is infinite
    assert all(math.isnan(each.width) or each.width > 0 for each in tiny) and math.isnan(tiny.ips.width)


def test_plots():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = dpb.replay(make_log(1000), runs=2).plot()
    assert axes.get_xlabel() == "epsilon" and len(axes.get_legend().get_texts()) == 6
    matplotlib.pyplot.close("all")


def test_pandas():
    pytest.importorskip("pandas")
    frame = dpb.replay(make_log(1000), "dp-imed", [0.5, 1], runs=2).to_pandas()
    assert list(frame["policy"])[2:] == ["dp-imed"] * 2


def test_the_interface_of_mabwiser():
    # The first example of MABWiser's page.
    arms, decisions, rewards = ["Arm1", "Arm2"], ["Arm1", "Arm1", "Arm2", "Arm1"], [20, 17, 25, 9]
    mab = dpb.MAB(arms, epsilon=1.0, reward_max=25.0)
    with pytest.raises(dpb.InvalidConfigError, match="fit first"):
        mab.predict()
    mab.fit(decisions, rewards)
    assert mab.predict() in arms
    mab.partial_fit(["Arm1", "Arm2"], [3, 7])
    mab.add_arm("Arm3")
    assert mab.arms == ["Arm1", "Arm2", "Arm3"] and mab.predict() in mab.arms
    assert set(mab.predict_expectations()) == set(mab.arms)
    assert mab.bandit.arms()["pulls"].tolist() == [4, 2, 0]
    with pytest.raises(dpb.InvalidRequestError, match="Arm9"):
        mab.partial_fit(["Arm9"], [1.0])
    with pytest.raises(dpb.InvalidConfigError):
        mab.add_arm("Arm3")
    # Its contextual example: a row of features for each decision.
    contexts = [[0.1, 0.9], [0.8, 0.2], [0.5, 0.5], [0.3, 0.3]]
    mab = dpb.MAB([1, 2], epsilon=4.0, reward_max=25.0).fit([1, 1, 2, 1], rewards, contexts)
    assert mab.predict(contexts[:1]) in (1, 2) and len(mab.predict(contexts)) == 4
    assert len(mab.predict_expectations(contexts)) == 4
    big = dpb.MAB(["a", "b"], epsilon=1.0).fit(["a", "b"] * 2000, [1.0, 0.0] * 2000)
    assert big.predict_expectations()["a"] == pytest.approx(1.0, abs=0.1) and big.predict() == "a"


def test_beside_mabwiser():
    theirs = pytest.importorskip("mabwiser.mab")
    coins = np.random.default_rng(6)
    decisions = coins.choice(["a", "b", "c"], 3000)
    rewards = (coins.random(3000) < np.select([decisions == "a", decisions == "b"], [0.2, 0.6], 0.4)).astype(int)
    one = theirs.MAB(["a", "b", "c"], theirs.LearningPolicy.EpsilonGreedy(0.0))
    two = dpb.MAB(["a", "b", "c"], epsilon=1.0)
    for mab in (one, two):
        mab.fit(decisions, rewards)
        mab.partial_fit(["a", "b"], [1, 0])
    assert one.predict() == two.predict() == "b"
    mine, of_theirs = two.predict_expectations(), one.predict_expectations()
    assert mine.keys() == of_theirs.keys()
    for name in mine:
        assert mine[name] == pytest.approx(of_theirs[name], abs=0.12)


def revenue(n=40_000):
    """Amounts of 10 in a range up to 10,000: the noise for the range hides them."""
    arm = COINS.integers(0, K, n)
    bought = (COINS.random(n) < RATES[arm]).astype(float)
    return {"arm": arm, "propensity": np.full(n, 1 / K), "reward": 10.0 * bought, "click": bought, "euros": 10.0 * bought}


def test_a_learned_clip_is_replayed_and_simulated(tmp_path):
    log = revenue()
    options = {"policies": "dp-imed", "epsilons": 1.0, "reward_max": 10_000.0}
    path = tmp_path / "log.csv"
    lines = zip(log["arm"], log["propensity"], log["reward"])
    path.write_text("arm,propensity,reward\n" + "".join(f"{a},{p},{r}\n" for a, p, r in lines))
    plain, learned = (dpb.replay(log, learn_clip=learn, **options)[2] for learn in (False, True))
    assert learned["dr"] - learned["dr_width"] > plain["dr"] + plain["dr_width"]
    assert rows(dpb.replay(path, learn_clip=True, **options))[2] == tuple(learned.values())
    world = {"arms": 4, "rate": 0.2, "amount": 10.0, "spread": 1.2, "decisions": 30_000, "runs": 4, **options}
    [plain], [learned] = (dpb.simulate(learn_clip=learn, **world) for learn in (False, True))
    assert learned["percent"] < 0.7 * plain["percent"]
    with pytest.raises(dpb.InvalidConfigError, match="spread: has no meaning without amount"):
        dpb.simulate(spread=1.2)


def test_parts_are_replayed(tmp_path):
    log = revenue(4000)
    weights = {"click": 0.25, "euros": 0.1}
    whole = {**log, "reward": np.clip(0.25 * log["click"] + 0.1 * log["euros"], 0.0, 1.0)}
    parts = {name: log[name] for name in ("arm", "propensity", "click", "euros")}
    assert rows(dpb.replay(parts, epsilons=1.0, runs=2, parts=weights)) == rows(dpb.replay(whole, epsilons=1.0, runs=2))
    both = (dpb.replay(each, epsilons=1.0, runs=2, reward_max=2.0, **more) for each, more in ((parts, {"parts": weights}), (whole, {})))
    assert next(both)[0]["dr"] > 1.2 * next(both)[0]["dr"]
    with pytest.raises(dpb.InvalidConfigError, match="the log has no column returned"):
        dpb.replay(parts, parts={"returned": -0.1})
    with pytest.raises(dpb.InvalidConfigError, match="parts must be None with a file"):
        dpb.replay(tmp_path / "log.csv", parts=weights)
