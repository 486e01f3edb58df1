"""Runs the loss of TRL's GRPOTrainer, the function itself, on batches of numbers: reads JSON from the standard input, writes JSON.

Python and TRL of the peers' virtual environment. All in float64. A case holds the settings of `GRPOConfig` that matter to the loss; the answer is
the loss and its gradient with respect to each log-probability.
"""

import json
import sys
from collections import defaultdict
from types import SimpleNamespace

import torch
import trl
from trl import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

torch.set_default_dtype(torch.float64)


class OneProcess:
    """What the loss asks of accelerate, for a single process."""

    num_processes = 1
    sync_gradients = True

    def pad_across_processes(self, x, dim=0, pad_index=0):
        return x

    def gather(self, x):
        return x

    def reduce(self, x, reduction="sum"):
        return x


def trainer_of(settings, entropies, logps):
    """As much of a trainer as its loss reads, with log-probabilities and entropies in the place of a model."""
    args = SimpleNamespace(**settings, steps_per_generation=1)
    args.delta = settings.get("delta")
    args.use_bias_correction_kl = settings.get("use_bias_correction_kl", False)
    defaults = {f.name: f.default for f in GRPOConfig.__dataclass_fields__.values()}
    for name in ("sapo_temperature_pos", "sapo_temperature_neg", "vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg"):
        setattr(args, name, settings.get(name, defaults[name]))
    fake = SimpleNamespace(
        args=args,
        loss_type=settings["loss_type"],
        importance_sampling_level=settings.get("importance_sampling_level", "token"),
        beta=settings.get("beta", 0.0),
        epsilon_low=settings.get("epsilon", 0.2),
        epsilon_high=settings.get("epsilon_high", settings.get("epsilon", 0.2)),
        top_entropy_quantile=settings.get("top_entropy_quantile", 1.0),
        off_policy_mask_threshold=settings.get("off_policy_mask_threshold"),
        max_completion_length=settings.get("max_completion_length", 256),
        use_vllm="ratio" in settings,
        vllm_importance_sampling_correction="ratio" in settings,
        entropy_coef=settings.get("entropy_coef", 0.0),
        _entropy_bonus_enabled=settings.get("entropy_coef", 0.0) != 0.0,
        use_adaptive_entropy=False,
        aux_loss_enabled=False,
        current_gradient_accumulation_steps=1,
        accelerator=OneProcess(),
        model=SimpleNamespace(training=True),
        _metrics={"train": defaultdict(list)},
        _get_per_token_logps_and_entropies=lambda *a, **k: (logps, entropies, None),
        get_off_policy_mask=GRPOTrainer.get_off_policy_mask,
        get_gamma_weights=GRPOTrainer.get_gamma_weights,
    )
    fake.get_high_entropy_mask = lambda *a: GRPOTrainer.get_high_entropy_mask(fake, *a)
    return fake


def ratio_of(mode, cap, old, sampling, mask):
    """The weights that TRL computes before its loss, where the trainer and vLLM disagree."""
    difference = (old - sampling) * mask
    ratio = torch.exp(difference.sum(-1, keepdim=True) if mode.startswith("sequence") else difference)
    return ratio.clamp(max=cap) if mode.endswith("truncate") else ratio.masked_fill(ratio > cap, 0.0)


def run(case):
    settings, rows = case["settings"], {name: torch.tensor(x) for name, x in case["rows"].items()}
    logps = rows["logProbs"].clone().requires_grad_(True)
    mask = rows["mask"]
    inputs = {
        "prompt_ids": torch.zeros(len(mask), 1, dtype=torch.long),
        "prompt_mask": torch.ones(len(mask), 1, dtype=torch.long),
        "completion_ids": torch.zeros(mask.shape, dtype=torch.long),
        "completion_mask": mask,
        "advantages": rows["advantages"].squeeze(1),
        "old_per_token_logps": rows["old"],
        "ref_per_token_logps": rows["reference"],
        "num_items_in_batch": mask.sum(),
    }
    if "ratio" in settings:
        sampling = rows["behavior"]
        inputs["sampling_per_token_logps"] = sampling
        inputs["importance_sampling_ratio"] = ratio_of(*settings["ratio"], rows["old"], sampling, mask)
    fake = trainer_of(settings, rows["entropy"], logps)
    loss = GRPOTrainer._compute_loss(fake, fake.model, inputs)
    loss.backward()
    return {"value": loss.item(), "gradient": logps.grad.tolist()}


json.dump({"version": trl.__version__, "results": [run(case) for case in json.load(sys.stdin)]}, sys.stdout)
