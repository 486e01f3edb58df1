"""Trajectories that TorchRL's MCAdvantageSelector selects, and the advantages of its MCAdvantage for other returns.

    python torchrlSelection.py > ../torchrlSelection.json

Made with torchrl 0.14.1, tensordict 0.14.3 and torch 2.13.0.
"""
import json
import random

import torch
from tensordict import TensorDict
from torchrl.objectives.llm import MCAdvantage, MCAdvantageSelector

draw = random.Random(5)
cases = []
for number in range(80):
    size = draw.randint(2, 4)
    count = size + draw.randint(0, 5)
    returns = [draw.choice([0, 0, 1, 0.5, -1, 0.25]) for _ in range(count)]
    strategy = draw.choice(["first", "uniform", "balanced", "balanced"])
    bounds = draw.choice([None, [0.1, 0.9], [0.3, 0.6], [-0.2, 0.2]])
    limit = draw.choice([100_000, 1])
    selected = MCAdvantageSelector(strategy, max_combinations=limit).select(
        TensorDict({"return": torch.tensor(returns, dtype=torch.float64)}, [count]),
        group_size=size,
        keep_return_bounds=None if bounds is None else tuple(bounds),
    )
    cases.append({"returns": returns, "size": size, "strategy": strategy, "bounds": bounds, "limit": limit, "selected": selected})


def trajectory(rewards: list[float]) -> TensorDict:
    steps = len(rewards)
    done = torch.tensor([False] * (steps - 1) + [True]).reshape(steps, 1)
    following = TensorDict(reward=torch.tensor(rewards).reshape(steps, 1), done=done, batch_size=[steps])
    return TensorDict(group=torch.zeros(steps), next=following, batch_size=[steps])


TURNS = [[1.0, 0.0, 2.0], [0.5], [0.0, 3.0]]
advantages = {}
for kind in ["sum", "max", "mean"]:
    transform = MCAdvantage(grpo_size=3, prompt_key="group", trajectory_return=kind)
    results = [transform.inv(trajectory(rewards)) for rewards in TURNS]
    advantages[kind] = results[-1]["advantage"].reshape(-1).tolist()

print(json.dumps({"selections": cases, "turns": TURNS, "advantages": advantages}))
