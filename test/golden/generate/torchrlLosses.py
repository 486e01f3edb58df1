"""The numbers of TorchRL's losses in test/objectives/grpoLoss.golden.test.ts and torchrl.golden.test.ts, as JSON on the standard output.

    python torchrlLosses.py

Made with torchrl 0.14.1, tensordict 0.14.3 and torch 2.13.0, in float64. The actor is a table of logits.
"""
import json
import warnings

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torchrl.modules.distributions import LLMMaskedCategorical
from torchrl.objectives.llm import CISPOLoss, GRPOLoss

warnings.filterwarnings("ignore")
torch.set_default_dtype(torch.float64)


def rows(numbers: list[float], *features: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64).reshape(2, 4, *features)


LOGITS = rows([0, 0, 0, 1, 0, -1, 0.5, 0.2, 0.1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1], 3)
TOKENS = rows([0, 1, 2, 1, 0, 2, 0, 2]).long()
MASK = rows([0, 0, 1, 1, 0, 1, 1, 1]).bool()
OLD = rows([0, 0, -1, -0.5, 0, -1.3, -0.9, -0.4])
REFERENCE = rows([0, 0, -1.2, -0.3, 0, -1, -0.3, -0.6])
ADVANTAGES = rows([1] * 4 + [-0.5] * 4, 1)


class Table(TensorDictModuleBase):
    in_keys = [("tokens", "full")]
    out_keys = [("log_probs", "full")]

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def get_dist(self, tensordict: TensorDict, logits_key: str = "logits") -> LLMMaskedCategorical:
        return LLMMaskedCategorical(logits=LOGITS + self.weight * 0, mask=MASK)


def outputs(kind: type, **options: object) -> dict[str, float]:
    loss = kind(Table(), masking_strategy="generic", **options)
    loss.set_keys(sample_log_prob=("log_probs", "full"))
    given = {
        "tokens": {"full": TOKENS},
        "log_probs": {"full": OLD},
        "next": {"ref_log_probs": {"full": REFERENCE}},
        "advantage": ADVANTAGES.clone(),
        "masks": {"all_attention_mask": MASK},
    }
    return {name: value.item() for name, value in loss(TensorDict(given, [2])).to_tensordict().items()}


print(
    json.dumps(
        {
            "token mean": outputs(GRPOLoss, clip_epsilon=0.2, entropy_coeff=0.01, kl_to_ref_coeff=0.1),
            "prompt mean": outputs(GRPOLoss, clip_epsilon=0.2, aggregation="prompt_mean"),
            "0.2 and 0.28": outputs(GRPOLoss, clip_epsilon=(0.2, 0.28)),
            "to inference": outputs(GRPOLoss, clip_epsilon=0.2, kl_to_inference_coeff=0.01),
            "far tokens left out": outputs(GRPOLoss, clip_epsilon=0.2, kl_mask_threshold=0.02),
            "cispo": outputs(CISPOLoss, clip_epsilon=0.2),
        },
        indent=1,
    )
)
