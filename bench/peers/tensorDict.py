"""Metadata and small-tensor operations of Python's tensordict: the counterpart of tensorDict.ts, same tree, same operations."""
import argparse
import json
import math
import time

import tensordict
import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--features", type=int, default=4)
parser.add_argument("--runs", type=int, default=9)
parser.add_argument("--millis", type=int, default=60)
args = parser.parse_args()
torch.set_num_threads(1)

WARM_RUNS = 4


def zeros(device):
    return torch.zeros(args.batch, args.features, device=device)


def values():
    """One string for each batch element: what a data leaf is."""
    return NonTensorStack(*[NonTensorData(f"value {i}") for i in range(args.batch)])


def tree(leaf):
    """20 leaves: four nodes of four leaves inside one node, and four leaves beside it."""

    def leaves():
        return {f"leaf{i}": leaf() for i in range(4)}

    nodes = {f"node{i}": TensorDict(leaves(), [args.batch]) for i in range(4)}
    return TensorDict({**leaves(), "nodes": TensorDict(nodes, [args.batch])}, [args.batch])


def run_length(f):
    """Warms up, and says how many calls make a run of `millis`."""
    calls, start = 0, time.process_time()
    while (time.process_time() - start) * 1000 < WARM_RUNS * args.millis:
        f()
        calls += 1
    return math.ceil(calls / WARM_RUNS)


def one_run(f, count):
    """Microseconds of processor time for one call."""
    start = time.process_time()
    for _ in range(count):
        f()
    return (time.process_time() - start) / count * 1e6


def summary(runs):
    runs = sorted(runs)
    return {"median": runs[len(runs) // 2], "lowest": runs[0], "highest": runs[-1]}


def median_micros(f):
    count = run_length(f)
    return summary([one_run(f, count) for _ in range(args.runs)])


def median_excess(f, part):
    """By how much `f` takes longer than `part`, which it contains: the two take turns."""
    count, part_count = run_length(f), run_length(part)
    return summary([one_run(f, count) - one_run(part, part_count) for _ in range(args.runs)])


def operations(leaf):
    td = tree(leaf)
    four = [tree(leaf) for _ in range(4)]
    value = leaf()
    return {
        "get": lambda: td.get(("nodes", "node2", "leaf3")),
        "set": lambda: td.set(("nodes", "node2", "leaf3"), value),
        "stack of 4": lambda: TensorDict.stack(four, 0),
        "index integer": lambda: td[3],
        "index slice": lambda: td[2:6],
        "index list": lambda: td[[5, 1, 3]],
    }


def leaves_alone(leaf):
    """What torch takes for the same work on 20 leaves that are in no TensorDict."""
    one = [leaf() for _ in range(20)]
    four = [[leaf() for _ in range(4)] for _ in range(20)]
    positions = torch.tensor([5, 1, 3])
    return {
        "stack of 4": lambda: [torch.stack(parts, 0) for parts in four],
        "index integer": lambda: [x[3] for x in one],
        "index slice": lambda: [x[2:6] for x in one],
        "index list": lambda: [x[positions] for x in one],
    }


def times(functions):
    return {name: median_micros(f) for name, f in functions.items()}


def meta_leaf():
    return zeros("meta")


def without_torch():
    functions = operations(meta_leaf)
    return {name: median_excess(functions[name], part) for name, part in leaves_alone(meta_leaf).items()}


results = {
    "meta": times(operations(meta_leaf)),
    "without torch": without_torch(),
    "values": times(operations(values)),
    "tensors": times(operations(lambda: zeros("cpu"))),
}

print(json.dumps({"peer": f"tensordict {tensordict.__version__} on torch {torch.__version__}", "results": results}))
