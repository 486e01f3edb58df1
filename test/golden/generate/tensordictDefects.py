"""What Python's tensordict does with the 17 expressions of our regression list, as JSON on the standard output.

    python tensordictDefects.py > ../tensordictDefects.json

Made with tensordict 0.14.3 and torch 2.13.0, which has repaired four of them. Each case has what was seen, and if it is wrong. `docs/laws.md` shows both beside the tests of ours.
"""

import json

import tensordict
import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict, pad_sequence
from tensordict.nn import TensorDictModule


def features(*batch: int) -> TensorDict:
    """One leaf with a feature axis of size 5."""
    return TensorDict({"x": torch.ones(*batch, 5)}, batch_size=batch)


def unfit(td: TensorDict) -> tuple[bool, str]:
    """Whether the leaf does not begin with the batch shape, or the batch shape has a size below 0."""
    batch, leaf = list(td.batch_size), list(td["x"].shape)
    return leaf[: len(batch)] != batch or len(leaf) != len(batch) + 1 or min(batch, default=0) < 0, (
        f"batch shape {batch}, leaf {leaf}"
    )


def eaten(td: TensorDict) -> tuple[bool, str]:
    """Whether the feature axis is no longer the last one, of size 5."""
    leaf = list(td["x"].shape)
    return leaf[-1:] != [5], f"batch shape {list(td.batch_size)}, leaf {leaf}"


def renamed_into_itself() -> tuple[bool, str]:
    td = TensorDict({"n": {"k": torch.ones(1)}}, [])
    td.rename_key_("n", ("n", "k"))
    keys = [list(k) if isinstance(k, tuple) else [k] for k in td.keys(True, True)]
    return keys == [], f"leaves left: {keys}"


def failing_update() -> tuple[bool, str]:
    td = TensorDict({"a": torch.zeros(2), "b": torch.zeros(2)}, [2])
    try:
        td.update({"a": torch.ones(2), "b": torch.ones(3)})
    except Exception:
        pass
    return td["a"].sum().item() == 2, f"after the error, the first key sums to {td['a'].sum().item():.0f}"


def flipped_strings() -> tuple[bool, str]:
    td = TensorDict({"x": torch.arange(3), "s": NonTensorStack("a", "b", "c")}, [3])
    flipped = td.flip(0)
    try:
        strings = flipped.get("s").tolist()
    except Exception as error:
        strings = type(error).__name__
    return strings != ["c", "b", "a"], f"x {flipped['x'].tolist()}, strings {strings}"


def joined_metadata() -> tuple[bool, str]:
    a, b = (TensorDict({"x": torch.ones(2), "m": NonTensorData(m, [2])}, [2]) for m in "ab")
    seen = torch.cat([a, b]).get("m")
    value = seen.tolist() if hasattr(seen, "tolist") else seen
    return value not in (["a", "a", "b", "b"],), f"metadata {value}"


def errors(*calls) -> tuple[bool, str]:
    kinds = []
    for call in calls:
        try:
            call()
            kinds.append("none")
        except Exception as error:
            kinds.append(type(error).__name__)
    return len(set(kinds)) > 1, f"errors: {', '.join(kinds)}"


def aliasing() -> tuple[bool, str]:
    td = TensorDict({"a": torch.zeros(2)}, [2])
    td[0].set_("a", torch.ones(()))
    inplace = td["a"][0].item()
    td = TensorDict({"a": torch.zeros(2)}, [2])
    td[0]["a"] = torch.ones(())
    item = td["a"][0].item()
    return inplace != item, f"the parent after set_ of an element: {inplace:.0f}, after an assignment: {item:.0f}"


def changed_input() -> tuple[bool, str]:
    td = TensorDict({"x": torch.ones(2)}, [2])
    TensorDictModule(lambda x: x + 1, in_keys=["x"], out_keys=["y"])(td)
    return "y" in td.keys(), f"keys of the input: {sorted(td.keys())}"


def keyless() -> tuple[bool, str]:
    joined = torch.cat([TensorDict({}, [3, 4]), TensorDict({}, [3, 5])])
    return True, f"batch shape {list(joined.batch_size)}"


def named(*size: int) -> TensorDict:
    return TensorDict({"x": torch.ones(*size)}, size, names=[f"n{i}" for i in range(len(size))])


CASES = [
    (1, "td[[True, False, True]], B = [3]", lambda: unfit(features(3)[[True, False, True]])),
    (2, "td[False], B = [3, 4]", lambda: unfit(features(3, 4)[False])),
    (3, "td[True], B = [3]", lambda: unfit(features(3)[True])),
    (4, "unflatten(0, [3, -1]), B = [6]", lambda: unfit(features(6).unflatten(0, [3, -1]))),
    (5, "flatten(0, 2), B = [3, 4]", lambda: eaten(features(3, 4).flatten(0, 2))),
    (6, "cat(dim=-2), B = [3]", lambda: eaten(torch.cat([features(3), features(3)], dim=-2))),
    (6, "cat(dim=-3), B = [3, 4]", lambda: eaten(torch.cat([features(3, 4), features(3, 4)], dim=-3))),
    (7, "stack(dim=2), B = [3]", lambda: unfit(torch.stack([features(3), features(3)], dim=2))),
    (7, "stack(dim=-3), B = [3]", lambda: unfit(torch.stack([features(3), features(3)], dim=-3))),
    (7, "stack(dim=-4), B = [3]", lambda: unfit(torch.stack([features(3), features(3)], dim=-4))),
    (8, "expand(-1), B = [1]", lambda: unfit(features(1).expand(-1))),
    (9, "td[0, 0], B = [3]", lambda: eaten(features(3)[0, 0])),
    (9, "td[:, 0], B = [3]", lambda: eaten(features(3)[:, 0])),
    (9, "td[mask of [3, 5]], B = [3]", lambda: eaten(features(3)[torch.ones(3, 5, dtype=torch.bool)])),
    (9, "repeat_interleave(2, dim=2), B = [3, 4]", lambda: eaten(features(3, 4).repeat_interleave(2, dim=2))),
    (10, "cat of TensorDicts without keys, [3, 4] and [3, 5]", keyless),
    (11, 'rename_key_("n", ("n", "k"))', renamed_into_itself),
    (12, "update that fails at the second key", failing_update),
    (13, "flip(0) with a string for each element", flipped_strings),
    (14, "cat with different string metadata", joined_metadata),
    (
        15,
        "iterate a TensorDict without axes; squeeze() of named axes of size 1; pad_sequence of other keys",
        lambda: errors(
            lambda: list(TensorDict({}, [])),
            lambda: named(1, 1).squeeze(),
            lambda: pad_sequence([TensorDict({"a": torch.ones(1)}, [1]), TensorDict({"b": torch.ones(2)}, [2])]),
        ),
    ),
    (16, 'td[0].set_("a", x) and td[0]["a"] = x', aliasing),
    (17, "TensorDictModule(td)", changed_input),
]


def run(item: int, expression: str, call) -> dict:
    try:
        shows, seen = call()
    except Exception as error:
        shows, seen = False, f"refused with {type(error).__name__}"
    return {"item": item, "expression": expression, "shows": shows, "seen": seen}


print(
    json.dumps(
        {"tensordict": tensordict.__version__, "torch": torch.__version__, "cases": [run(*case) for case in CASES]},
        indent=2,
    )
)
