"""The table of a cluster end to end, with tiny numbers: every rule sends all turns, and SRB's finds what is known."""

from __future__ import annotations

import pytest

from bench.cluster_table import Load, table
from bench.ruled_bridge import OWN, RULES


def test_each_rule_serves_and_srbs_own_finds_more_than_round_robin(capsys: pytest.CaptureFixture[str]) -> None:
    load = Load(stories=6, rate=12, opening=(100, 120), tokens=8, warm=0, seconds=6)
    rows = {row.rule: row for row in table([*RULES, OWN], load, engines=2, model="fake:200:20000")}
    assert rows.keys() == {*RULES, OWN}
    for row in rows.values():
        assert row.waits
        assert row.tokens >= 8
        assert row.cores > 0
        assert 0 <= row.idle <= 1
    share = {rule: row.known / (row.known + row.computed) for rule, row in rows.items()}
    assert share[OWN] > share["round robin"]
    told = capsys.readouterr().out
    assert all(rule in told for rule in rows)
