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


def median_micros(f):
    """Medians of `runs` runs of `millis` each, in microseconds of processor time for one call."""
    f()
    calls, start = 0, time.process_time()
    while (time.process_time() - start) * 1000 < WARM_RUNS * args.millis:
        f()
        calls += 1
    count = math.ceil(calls / WARM_RUNS)
    runs = []
    for _ in range(args.runs):
        start = time.process_time()
        for _ in range(count):
            f()
        runs.append((time.process_time() - start) / count * 1e6)
    runs.sort()
    return {"median": runs[len(runs) // 2], "lowest": runs[0], "highest": runs[-1]}


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


results = {
    "meta": times(operations(lambda: zeros("meta"))),
    "meta alone": times(leaves_alone(lambda: zeros("meta"))),
    "values": times(operations(values)),
    "tensors": times(operations(lambda: zeros("cpu"))),
}

print(json.dumps({"peer": f"tensordict {tensordict.__version__} on torch {torch.__version__}", "results": results}))
