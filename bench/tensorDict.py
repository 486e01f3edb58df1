"""Metadata and small-tensor operations of Python's tensordict: the counterpart of tensorDict.ts, same tree, same operations."""
import argparse
import json
import time

import tensordict
import torch
from tensordict import TensorDict

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--features", type=int, default=4)
parser.add_argument("--runs", type=int, default=9)
parser.add_argument("--millis", type=int, default=60)
args = parser.parse_args()
torch.set_num_threads(1)


def tree(device):
    """20 leaves: four nodes of four leaves inside one node, and four leaves beside it."""

    def leaf():
        return torch.zeros(args.batch, args.features, device=device)

    def leaves():
        return {f"leaf{i}": leaf() for i in range(4)}

    nodes = {f"node{i}": TensorDict(leaves(), [args.batch]) for i in range(4)}
    return TensorDict({**leaves(), "nodes": TensorDict(nodes, [args.batch])}, [args.batch])


def median_micros(f):
    """Medians of `runs` runs of `millis` each, in microseconds of processor time for one call."""
    f()
    count, start = 0, time.process_time()
    while (time.process_time() - start) * 1000 < args.millis:
        f()
        count += 1
    runs = []
    for _ in range(args.runs):
        start = time.process_time()
        for _ in range(count):
            f()
        runs.append((time.process_time() - start) / count * 1e6)
    runs.sort()
    return {"median": runs[len(runs) // 2], "lowest": runs[0], "highest": runs[-1]}


results = {}
for kind, device in (("metadata", "meta"), ("tensors", "cpu")):
    td = tree(device)
    four = [tree(device) for _ in range(4)]
    value = torch.zeros(args.batch, args.features, device=device)
    operations = {
        "get": lambda: td.get(("nodes", "node2", "leaf3")),
        "set": lambda: td.set(("nodes", "node2", "leaf3"), value),
        "stack of 4": lambda: TensorDict.stack(four, 0),
        "index integer": lambda: td[3],
        "index slice": lambda: td[2:6],
        "index list": lambda: td[[5, 1, 3]],
    }
    results[kind] = {name: median_micros(f) for name, f in operations.items()}

print(json.dumps({"peer": f"tensordict {tensordict.__version__} on torch {torch.__version__}", "results": results}))
