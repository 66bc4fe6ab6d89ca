"""Commands that make no sense are refused by name before the decode thread sees them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from srb.engine.fake import FakeModel
from srb.engine.preparing import Preparer
from srb.errors import InvalidRequest
from srb.wire.commands import BranchSpec, ContextShift, Generate

COMMAND = Generate("r", ("Once",), (BranchSpec(1), BranchSpec(2)))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"branches": ()}, "n"),
        ({"branches": (BranchSpec(-1),)}, "seed"),
        ({"branches": (BranchSpec(2**32 - 1),)}, "seed"),
        ({"branches": (BranchSpec(True),)}, "seed"),
        ({"branches": (BranchSpec(1), BranchSpec(2, max_tokens=-2))}, "max_tokens"),
        ({"branches": (BranchSpec(1, max_tokens="5"),)}, "max_tokens"),  # type: ignore[arg-type]
        ({"branches": (BranchSpec(1, min_tokens=1.5),)}, "min_tokens"),  # type: ignore[arg-type]
        ({"branches": (BranchSpec(1, n_indent=-1),)}, "n_indent"),
        ({"branches": (BranchSpec(1, t_max_predict_ms=-2),)}, "t_max_predict_ms"),
        ({"branches": (BranchSpec(1, stop=(7,)),)}, "stop"),  # type: ignore[arg-type]
        ({"branches": (BranchSpec(1, stop_at="page"),)}, "stop_at"),
        ({"branches": (BranchSpec(1, stop_at=["word"]),)}, "stop_at"),  # type: ignore[arg-type]
        ({"branches": (BranchSpec(1, stop_at="word", stop_after=0),)}, "stop_after"),
        ({"branches": (BranchSpec(1, stop_at="word", stop_after=1001),)}, "stop_after"),
        ({"branches": (BranchSpec(1, banned_strings=("a", "")),)}, "banned_strings"),
        ({"branches": (BranchSpec(1, banned_strings=("a" * 257,)),)}, "banned_strings"),
        ({"branches": (BranchSpec(1, banned_strings=(7,)),)}, "banned_strings"),  # type: ignore[arg-type]
        ({"branches": (BranchSpec(1, banned_strings=tuple(map(str, range(1025)))),)}, "banned_strings"),
        (
            {"branches": tuple(BranchSpec(i, banned_strings=(chr(256 + i) * 256,) * 64) for i in range(5))},
            "banned_strings",
        ),
        (
            {"branches": (BranchSpec(1, banned_patterns=(("a", 0.0, False), ("", 0.0, False))),)},
            "banned_patterns[1].pattern",
        ),
        ({"branches": (BranchSpec(1, banned_patterns=(("a" * 257, 0.0, False),)),)}, "banned_patterns[0].pattern"),
        ({"branches": (BranchSpec(1, banned_patterns=(("a(", 0.0, False),)),)}, "banned_patterns[0].pattern"),
        ({"branches": (BranchSpec(1, banned_patterns=(("a", 1.5, False),)),)}, "banned_patterns[0].weight"),
        ({"branches": (BranchSpec(1, banned_patterns=(("a", 0.0, False),) * 1025),)}, "banned_patterns"),
        ({"branches": (BranchSpec(1, banned_patterns=((r"\w{900}", 0.0, False),) * 5),)}, "banned_patterns"),
        (
            {"branches": tuple(BranchSpec(i, banned_patterns=((f"{i}a{{900}}", 0.0, False),)) for i in range(37))},
            "banned_patterns",
        ),
        ({"prompt": (10**9,)}, "prompt"),
        ({"lora": ((3, 1.0),)}, "lora"),
        ({"control_vectors": (("sad", 1.0),)}, "control_vectors"),
        ({"branches": (BranchSpec(1, control_vectors=((7, "x"),)),)}, "control_vectors"),  # type: ignore[arg-type]
        ({"shift": ContextShift(-2)}, "n_keep"),
    ],
)
def test_invalid_branches_are_refused_naming_their_field(changes: dict[str, Any], field: str) -> None:
    model = FakeModel()
    with pytest.raises(InvalidRequest, match=f"^Field '{re.escape(field)}': ") as refusal:
        Preparer(model, None).request(replace(COMMAND, **changes))
    assert refusal.value.extra == {"param": field}
    assert model.open_samplers == 0


def test_the_smallest_and_largest_allowed_fields_are_accepted() -> None:
    most = BranchSpec(2**32 - 2, max_tokens=-1, stop=("a", ""), t_max_predict_ms=-1)
    request = Preparer(FakeModel(), None).request(replace(COMMAND, branches=(BranchSpec(0, max_tokens=0), most)))
    assert len(request.branches) == 2
    request.close()
