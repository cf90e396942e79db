"""Tables: deciding without a bandit, and recording what was decided."""

import json
import math
from pathlib import Path

import pytest

import dpb


def make(**given):
    return dpb.Bandit(**{"arms": 4, "epsilon": 1.0, "policy": "dp-med", "table_capacity": 8, **given})


def test_weights():
    with make() as bandit:
        bandit.retire_arm(3)
        assert bandit.weights(eligible=[0, 2]).tolist() == [1 << 31, 0, 1 << 31, 0]
        with pytest.raises(dpb.InvalidRequestError):
            bandit.weights(eligible=[3])
        with pytest.raises(TypeError, match="colour"):
            bandit.weights(colour=3)
    with make(policy="dp-imed") as bandit, pytest.raises(dpb.UnsupportedError, match="dp-med"):
        bandit.weights()
    with dpb.Bandit(arms=2, epsilon=1.0, features=1, model_per_arm=True) as bandit:
        assert sum(bandit.weights(features=[0.5]).tolist()) == 1 << 32


def test_a_table_decides_and_its_decisions_are_recorded_once():
    with make() as bandit:
        names = ["blau", "rot", "grün", "花"]
        table = bandit.publish("button", arms=names, contexts={"phone": {"eligible": [3]}}, until=7, grace=5)
        assert dpb.DecisionTable(str(table).encode()).decide("ana", "phone") == table.decide("ana", "phone")
        assert table.decide("ana", "tablet") == table.decide("ana")
        made = table.decide("ana", "phone")
        assert (made.arm, made.name, made.propensity, made.version, table.until) == (3, "花", 1.0, table.version, 7)
        first = bandit.record(made.version, made.id, made.arm)
        assert math.isnan(first.propensity) and first.arm == 3
        assert bandit.record(made.version, made.id, 1)[0] == bandit.find(made.version, made.id).ticket == first.ticket
        bandit.update(first.ticket, 1.0)
        with pytest.raises(dpb.DuplicateError):
            bandit.record(made.version, made.id, 3)
        with pytest.raises(dpb.UnknownTicketError):
            bandit.find(made.version, made.id ^ 1)
        for _ in range(2):
            bandit.table_begin(0)
        with pytest.raises(dpb.ExpiredError):
            bandit.record(made.version, 5, 3)
        with pytest.raises(dpb.InvalidRequestError):
            bandit.record(bandit.table_begin(0), 5, 4)
        for unit in ["", "a\nb", None]:
            with pytest.raises(dpb.InvalidRequestError):
                table.decide(unit)
        with pytest.raises(dpb.InvalidConfigError):
            bandit.publish("button", arms=names[1:])
    with make(table_capacity=0) as bandit, pytest.raises(dpb.UnsupportedError):
        bandit.publish("button")


def test_bad_tables_are_refused():
    with make() as bandit:
        text = str(bandit.publish("button"))
    for old, new in [
        ("1073741824,", "1073741823,"),
        ('"arms": [', '"arms": ["new", '),
        ('"": [', '"x": ['),
        ('"salt": "', '"salt": "\\n'),
        ("1073741824", "1073741824.0"),
        ('"version": "', '"version": "0'),
        (f'"version": "{text[text.index("version") + 11 :][:2]}', '"version": "0_'),
        ("{", '{"x": "' + "x" * (1 << 20) + '", '),
        ("}", ""),
        ('"dpb_table": 1', '"dpb": 1'),
    ]:
        assert old in text
        with pytest.raises(dpb.CorruptError):
            dpb.DecisionTable(text.replace(old, new, 1))
    with pytest.raises(dpb.NewerVersionError):
        dpb.DecisionTable(text.replace('"dpb_table": 1', '"dpb_table": 2'))


def test_it_decides_as_all_other_languages():
    vectors = json.loads((Path(__file__).parents[3] / "tests/data/decide.json").read_text(encoding="utf-8"))
    for vector in vectors:
        table = dpb.DecisionTable(json.dumps(vector["table"]))
        for meant in vector["decisions"]:
            made = table.decide(meant["unit"], meant["context"])
            assert (made.arm, f"{made.id:016x}") == (meant["arm"], meant["id"])
    assert sum(len(vector["decisions"]) for vector in vectors) == 200
