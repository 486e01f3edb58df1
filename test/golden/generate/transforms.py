"""Transforms of TorchRL: divergences in the reward, sums of rewards, stacked rows, and replies with a thinking prompt.

    python transforms.py ../transforms.json

Made with torchrl 0.14.1, tensordict 0.14.0 and torch 2.13.0.
"""
import json
import sys

import tensordict
import torch
import torchrl
from tensordict import TensorDict, lazy_stack
from torchrl.envs.llm.transforms import AddThinkingPrompt, KLComputation, as_nested_tensor, as_padded_tensor
from torchrl.envs.transforms import RewardSum

tensordict.set_list_to_stack(True).set()
torch.manual_seed(9)


def rows(lengths):
    return [(-4 * torch.rand(n)).tolist() for n in lengths]


def divergences():
    """KLComputation on ragged rows with per-token rewards of 0 and of others."""
    cases = []
    for lengths, coeff in [([3, 1, 5], 0.1), ([2, 2], 1.0), ([4], 0.0), ([1, 6, 2, 3], 2.5)]:
        policy, reference, reward = rows(lengths), rows(lengths), rows(lengths)
        td = lazy_stack(
            [
                TensorDict(
                    log_probs=TensorDict(full=torch.tensor(p)),
                    ref_log_probs=TensorDict(full=torch.tensor(q)),
                    reward=torch.tensor(r).unsqueeze(-1),
                )
                for p, q, r in zip(policy, reference, reward)
            ]
        )
        out = KLComputation(coeff=coeff)._step(td, td)
        kl = [x.tolist() for x in out.get("kl_penalty", as_list=True)]
        after = [x.squeeze(-1).tolist() for x in out.get("reward", as_list=True)]
        cases.append(
            {"coefficient": coeff, "policy": policy, "reference": reference, "reward": reward, "kl": kl, "after": after}
        )
    return cases


def missing():
    """A number that is missing counts as 0 there."""
    td = lazy_stack(
        [
            TensorDict(
                log_probs=TensorDict(full=torch.tensor([-1.0, -2.0])),
                ref_log_probs=TensorDict(full=torch.tensor([float("nan"), -3.0])),
                reward=torch.zeros(2, 1),
            )
        ]
    )
    out = KLComputation()._step(td, td)
    return [x.tolist() for x in out.get("kl_penalty", as_list=True)]


def sums():
    """RewardSum over three steps of two environments."""
    transform = RewardSum()
    rewards = torch.randn(3, 2, 1)
    state = TensorDict(episode_reward=torch.zeros(2, 1), batch_size=[2])
    result = []
    for reward in rewards:
        after = transform._step(state, TensorDict(reward=reward, batch_size=[2]))
        result.append(after["episode_reward"].squeeze(-1).tolist())
        state = TensorDict(episode_reward=after["episode_reward"], batch_size=[2])
    return {"rewards": rewards.squeeze(-1).tolist(), "sums": result}


def stacked():
    """Rows of different lengths as one, padded on the left, and as they are."""
    parts = [TensorDict(ids=torch.arange(1, n + 1), weight=torch.full((n,), 0.5 * n)) for n in [2, 4, 1]]
    padded, nested = as_padded_tensor(parts), as_nested_tensor(parts)
    return {
        "lengths": [2, 4, 1],
        "padded": {key: padded[key].tolist() for key in ["ids", "weight"]},
        "nested": {key: [x.tolist() for x in nested[key].unbind()] for key in ["ids", "weight"]},
    }


def thinking():
    """The last message after AddThinkingPrompt edits it."""
    transform = AddThinkingPrompt(cond=lambda td: True, prompt="Wait.")
    texts = [
        "<think>a</think><answer>4</answer>",
        "no block",
        "<answer>1</answer> or <answer>2</answer>",
        "<answer>cut off",
    ]
    return [{"before": text, "after": transform._replace_answer_with_prompt(text)} for text in texts]


versions = {"torchrl": torchrl.__version__, "tensordict": tensordict.__version__, "torch": torch.__version__}
made = {
    "versions": versions,
    "divergences": divergences(),
    "missing": missing(),
    "sums": sums(),
    "stacked": stacked(),
    "thinking": thinking(),
}
with open(sys.argv[1], "w") as file:
    json.dump(made, file, indent=1)
    file.write("\n")
