"""Replay buffers of TorchRL and balanced packing of verl: priorities, importance weights, top-k choice, groups, partitions.

    python buffers.py VERL_FOLDER ../buffers.json

Made with torchrl 0.14.1, torch 2.13.0 and verl 0.9.1 (the folder of its unpacked wheel). Of verl only the partition functions of
`verl/utils/seqlen_balancing.py` are run; the rest of that file wants Ray. torchrl's compiled trees do not load with this torch: two
plain arrays stand for them, everything else is torchrl's.
"""
import ast
import heapq
import json
import sys
from pathlib import Path

import torch
import torchrl
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, PrioritizedSampler, ReplayBuffer
from torchrl.data.llm.topk import TopKRewardSelector
from torchrl.data.replay_buffers.samplers import PromptGroupSampler
from torchrl.data.replay_buffers.samplers import prioritized as sampler_module


class Tree:
    """What the sampler needs of a segment tree, over an array."""

    def __init__(self, size, neutral, reduce):
        self.values, self.reduce = torch.full((size,), neutral, dtype=torch.double), reduce

    def __getitem__(self, index):
        return self.values[index]

    def __setitem__(self, index, value):
        self.values[index] = torch.as_tensor(value, dtype=torch.double)

    def query(self, start, end):
        return self.reduce(self.values[start:end]).item()

    def scan_lower_bound(self, mass):
        return torch.searchsorted(self.values.cumsum(0), torch.as_tensor(mass))


for name in ["SumSegmentTreeFp32", "SumSegmentTreeFp64"]:
    setattr(sampler_module, name, lambda size: Tree(size, 0.0, torch.sum))
for name in ["MinSegmentTreeFp32", "MinSegmentTreeFp64"]:
    setattr(sampler_module, name, lambda size: Tree(size, float("inf"), torch.min))


def prioritized():
    """Weights of all slots after each update, in float64 trees, and the share of draws that each slot has."""
    cases = []
    for alpha, beta in [(0.7, 0.9), (1.0, 0.0), (0.0, 1.0), (0.5, 0.4)]:
        sampler = PrioritizedSampler(8, alpha=alpha, beta=beta, eps=1e-8, dtype=torch.double)
        buffer = ReplayBuffer(storage=LazyTensorStorage(8), sampler=sampler, batch_size=4)
        rounds = []
        for wrote, slots, priorities in [
            (5, [0, 2, 4], [0.5, 2.0, 0.1]),
            (2, [1, 5], [3.0, 0.7]),
            (3, [0], [0.05]),
        ]:
            buffer.extend(TensorDict({"x": torch.arange(wrote)}, [wrote]))
            sampler.update_priority(torch.tensor(slots), torch.tensor(priorities, dtype=torch.double))
            size = len(buffer)
            stored = torch.as_tensor(sampler._sum_tree[torch.arange(size)])
            _, info = sampler.sample(buffer._storage, 256)
            index = torch.as_tensor(_).reshape(-1)
            weights = [None] * size
            for i, w in zip(index.tolist(), info["priority_weight"].tolist()):
                weights[i] = w
            rounds.append({"wrote": wrote, "slots": slots, "priorities": priorities, "stored": stored.tolist(), "weights": weights})
        cases.append({"alpha": alpha, "beta": beta, "rounds": rounds})
    return cases


def top_k():
    cases = []
    for rewards, k in [
        ([0, 1, 2, 3, 4], 3), ([0, 0, 0, 1], 3), ([0, 1, 1, 1], 2), ([0, 0, 1, 1], 2), ([1, 1, 1], 1),
        ([0.5, -1, 3, 2], 1), ([3, 2, 1, 0], 4), ([-1, -2], 2), ([0.1, 0.9, 0.4, 0.2, 0.8, 0.3], 2),
    ]:
        n = len(rewards)
        selector = TopKRewardSelector(n, k, prompt_key="p", rewards_key="reward", done_key="done", verbose=False)
        kept = None
        for i, reward in enumerate(rewards):
            td = TensorDict({"reward": torch.full((1, 1, 1), float(reward)), "done": torch.ones(1, 1, dtype=torch.bool), "at": torch.tensor([i])}, [1])
            td.set_non_tensor("p", "same")
            out = selector._inv_call(td)
            if out is not None:
                kept = out["at"].tolist()
        cases.append({"rewards": rewards, "k": k, "kept": kept if kept is not None else []})
    return cases


def variance():
    """The rows that the reward and variance strategies choose from one group."""
    cases = []
    for rewards, k in [([0, 1, 0.5, 0.2], 2), ([0, 0, 1, 1, 0.4], 3), ([3, 1, 2, 9, 4, 7], 4), ([1, 2], 2), ([5, 1, 8], 1)]:
        case = {"rewards": rewards, "k": k}
        for strategy in ["reward", "variance"]:
            buffer = ReplayBuffer(
                storage=LazyTensorStorage(16),
                sampler=PromptGroupSampler(num_groups=1, group_key="p", reward_key="reward", strategy=strategy),
                batch_size=k,
            )
            n = len(rewards)
            buffer.extend(TensorDict({"p": torch.zeros(n, dtype=torch.long), "at": torch.arange(n), "reward": torch.tensor(rewards, dtype=torch.double)}, [n]))
            case[strategy] = sorted(buffer.sample()["at"].tolist())
        cases.append(case)
    return cases


def partitions(folder):
    source = ast.parse(Path(folder, "verl/utils/seqlen_balancing.py").read_text())
    wanted = {"karmarkar_karp", "get_seqlen_balanced_partitions"}
    scope = {"heapq": heapq}
    exec(compile(ast.Module([node for node in source.body if getattr(node, "name", "") in wanted], []), "verl", "exec"), scope)
    generator = torch.Generator().manual_seed(0)
    cases = []
    for size, k, equal in [(4, 2, False), (7, 3, False), (8, 2, True), (12, 4, True), (12, 4, False), (24, 3, True), (24, 5, False), (9, 9, False), (6, 1, True)]:
        lengths = torch.randint(1, 40, (size,), generator=generator).tolist()
        parts = scope["get_seqlen_balanced_partitions"](lengths, k, equal)
        cases.append({"lengths": lengths, "k": k, "equal": equal, "partitions": parts})
    return cases


Path(sys.argv[2]).write_text(json.dumps({
    "torchrl": torchrl.__version__, "torch": torch.__version__, "verl": "0.9.1",
    "prioritized": prioritized(), "topK": top_k(), "groupChoice": variance(), "partitions": partitions(sys.argv[1]),
}) + "\n")
