"""The number of examples that random tests draw."""

from __future__ import annotations

import pytest

from tests.walks import VARIABLE, examples


@pytest.mark.parametrize(("text", "number"), [("", 60), ("1", 60), ("0.3", 18), ("20", 1200), ("1e-9", 1)])
def test_examples_are_multiplied_by_the_variable(text: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    assert examples(60) == number


@pytest.mark.parametrize("text", ["few", "0", "-1", "nan", "inf", "1,5"])
def test_a_factor_that_is_no_positive_number_is_a_clear_error(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(ValueError, match=f"TEST_EXAMPLES is '{text}'; it has to be a positive number"):
        examples(60)
