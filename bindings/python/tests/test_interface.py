"""The package has all of dpb.h."""

import dataclasses
import re
from pathlib import Path

import dpb
from dpb import _bandit, _cdef, _library

PACKAGE = Path(dpb.__file__).parent
SOURCE = "\n".join(path.read_text() for path in PACKAGE.glob("*.py") if path.name not in ("_cdef.py", "_table.py"))
NUMBERS = dict(re.findall(r"#define (DPB_\w+) (\d+)", _cdef.CDEF))


def members(struct):
    return {name for name, _ in _library.ffi.typeof(struct).fields} - {"struct_size", "reserved", "spare"}


def test_every_function_is_called():
    functions = set(re.findall(r"\b(dpb_\w+)\(", _cdef.CDEF))
    assert len(functions) > 60
    # A policy is made by its name. test_every_policy makes each.
    constructors = {f for f in functions if re.search(rf"{f}\(const dpb_config \*config, dpb_bandit \*\*out", _cdef.CDEF)}
    assert len(constructors - {"dpb_new"}) == len(dpb.POLICIES)
    functions.remove("dpb_decide")  # in Python, where hashlib has the hash
    missing = functions - constructors - set(re.findall(r"\blib\.(dpb_\w+)", SOURCE))
    assert not missing, f"the package does not call {missing}"


def test_every_number_has_a_name():
    def of(prefix):
        return {int(number) for name, number in NUMBERS.items() if name.startswith(prefix)}

    small = {name: number for name, number in NUMBERS.items() if int(number) < 1 << 31}
    statuses = {int(number) for name, number in small.items() if "DPB_" + str(_library.status_name(int(number)))[4:] == name}
    assert statuses == {0, *dpb.ERRORS}
    assert of("DPB_CLOCK_") == set(dpb.Clock)
    assert of("DPB_DUTY_") == set(dpb.Duty)
    assert of("DPB_WARN_") == set(dpb.Warnings)
    assert of("DPB_POLICY_") == set(_library.POLICY_NAMES)
    assert of("DPB_NODE_") == {*dpb.fleet.NodeState} and NUMBERS["DPB_NODE_ROUTED"] == "1"
    assert of("DPB_COMMAND_") == set(range(15)) and of("DPB_LANE_") == {0, 1}
    used = ("DPB_NODE", "DPB_COMMAND", "DPB_LANE", "DPB_CLOCK", "DPB_DUTY", "DPB_WARN", "DPB_POLICY", "DPB_MODEL", "DPB_COUNTER", "DPB_SEAL_BYTES", "DPB_STATE_LIFETIME")
    rest = {name for name, number in NUMBERS.items() if not name.startswith(used) and int(number) not in statuses}
    flags = {kind[5:] for kind in dpb._table.KINDS.values() if kind.startswith("flag ")}
    assert rest <= flags | {"DPB_NO_ARM"} and NUMBERS["DPB_SEAL_BYTES"] == "53" and NUMBERS["DPB_NO_ARM"] == str(dpb.NO_ARM)


def test_every_member_is_read_or_set():
    def names(kind):
        return {field.name for field in dataclasses.fields(kind)}

    assert names(dpb.Report) ^ members("dpb_report") == {"feature_model", "model_per_arm"}
    assert names(dpb.Diagnostics) == members("dpb_diagnostics")
    assert names(dpb.fleet.NodeReport) == members("dpb_node_report")
    assert names(dpb.fleet.NodeDiagnostics) == members("dpb_node_diagnostics")
    options = {name for name in members("dpb_node_options") - {"name"} if f"options.{name}" not in SOURCE}
    assert options == {"interval_ms", "delay_ms", "settle_ms"}  # set by their names, in seconds
    assert names(dpb.ShuffleParams) == members("dpb_shuffle_params")
    assert set(dpb.ARM.names) == members("dpb_arm")
    assert set(dpb.DECISION.names) == members("dpb_decision") == set(dpb.Decision._fields)
    table = dpb._table.REQUEST
    request = {*table, *(f"{name}_len" for name, kind in table.items() if kind.endswith("[]"))}
    assert request | {name for name in members("dpb_request") if f"request.{name}" in SOURCE} == members("dpb_request")
    flags = {name for name, kind in dpb._table.KINDS.items() if kind.startswith("flag ")}
    config = names(dpb.Config) - flags - {"model_per_arm"} | {"flags", "feature_model", "part_weights", "codebook_len"}
    assert {name for name in members("dpb_config") if not name.startswith("reserved")} == config


def test_the_defaults_are_those_of_c():
    ours, _ = _bandit._config(dpb.Config(arms=7, epsilon=0.5))
    theirs = _library.ffi.new("dpb_config *")
    _library.lib.dpb_config_init_sized(theirs, _library.ffi.sizeof("dpb_config"), 7, 0.5)
    assert _library.ffi.buffer(ours)[:] == _library.ffi.buffer(theirs)[:]


def test_the_page_for_other_languages_has_the_sizes():
    page = (Path(__file__).parents[3] / "docs/python.md").read_text()
    sizes = re.findall(r"(\d+)(?: bytes)? for `(dpb_\w+)`", page)
    assert len(sizes) == 4
    for size, struct in sizes:
        assert _library.ffi.sizeof(struct) == int(size), struct


def test_the_version_is_that_of_the_package():
    from importlib.metadata import version

    assert dpb.__version__ == dpb.version() == version("libdpb")
    assert dpb.abi_version() == 1
