"""The programs of the pages run, those of one page after another."""

import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/guide/ab-test.md",
        "docs/operating/restarts.md",
        "docs/python.md",
        "bindings/python/README.md",
    ],
)
def test_its_programs_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    programs = re.findall(r"```python\n(.*?)```", (TOP / page).read_text(), re.DOTALL)
    names = {}
    for program in programs:
        exec(compile(program, page, "exec"), names)
    assert programs
