"""Children of multiprocessing, by each method: nothing they recorded is missing at their end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.children import assert_all_told, work_of

HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.mark.parametrize("where", ["module", "child"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_each_child_denies_records_and_traces_on_its_own(method, where, tmp_path):
    program = subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / "child_processes.py"), method, where],
        env={**os.environ, "WORK_FOLDER": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (program.returncode, program.stderr) == (0, "")
    told = json.loads(program.stdout)
    assert told["codes"] == [0, 0]
    worked = work_of(told["answers"])
    assert list(worked.values()) == [2, 2]
    assert_all_told(tmp_path, worked)
