"""Runs the losses of TRL's trainers, the functions themselves, on batches of numbers: reads JSON from the standard input, writes JSON.

Python and TRL of the peers' virtual environment. All in float64, but where TRL itself goes down to float32. A case names what to run and the settings
that matter to it; the answer is the loss and its gradient with respect to each log-probability or logit. Where TRL has no function of its own for
something, the very lines of its method are run.
"""

import inspect
import json
import os
import sys
import textwrap
from collections import defaultdict
from types import SimpleNamespace

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import torch
import trl
from transformers.loss.loss_utils import ForCausalLMLoss
from trl import DPOTrainer, GRPOConfig
from trl.experimental.gkd import GKDTrainer
from trl.experimental.gmpo import GMPOTrainer
from trl.experimental.gspo_token import GRPOTrainer as GSPOTokenTrainer
from trl.trainer.distillation_trainer import _chunked_divergence_loss
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.rloo_trainer import RLOOTrainer
from trl.trainer.sft_trainer import _chunked_cross_entropy_loss

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


def run_lines(method, first, last, names):
    """Runs the lines of a method from one that begins with `first` to before the next that begins with `last`, and gives the names they leave."""
    lines = inspect.getsource(method).splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip().startswith(first))
    end = next(i for i, line in enumerate(lines) if i > start and line.strip().startswith(last))
    scope = {**vars(inspect.getmodule(method)), **names}
    exec(textwrap.dedent("\n".join(lines[start:end])), scope)
    return scope


def ratio_of(mode, low, high, old, sampling, mask):
    """The weights that TRL computes before its loss, where the trainer and vLLM disagree."""
    settings = SimpleNamespace(
        vllm_importance_sampling_mode=mode, vllm_importance_sampling_clip_min=low, vllm_importance_sampling_clip_max=high
    )
    names = {"self": settings, "old_per_token_logps": old, "sampling_per_token_logps": sampling, "mask": mask}
    method = GRPOTrainer._generate_and_score_completions
    left = run_lines(method, "per_token_logps_diff = ", "# Compute the per-token log probabilities for the reference", names)
    return left["vllm_importance_sampling_ratio"]


POLICY_TRAINERS = {"gmpo": GMPOTrainer, "gspo_token": GSPOTokenTrainer, "rloo": RLOOTrainer}


def policy(settings, rows):
    logps = rows["logProbs"].clone().requires_grad_(True)
    mask = rows["mask"]
    inputs = {
        "prompt_ids": torch.zeros(len(mask), 1, dtype=torch.long),
        "prompt_mask": torch.ones(len(mask), 1, dtype=torch.long),
        "completion_ids": torch.zeros(mask.shape, dtype=torch.long),
        "completion_mask": mask,
        "advantages": rows["advantages"].squeeze(1),
        "old_per_token_logps": rows["old"],
        "old_logps": (rows["old"] * mask).sum(1),
        "ref_per_token_logps": rows["reference"],
        "num_items_in_batch": mask.sum(),
    }
    if "ratio" in settings:
        sampling = rows["behavior"]
        inputs["sampling_per_token_logps"] = sampling
        inputs["importance_sampling_ratio"] = ratio_of(*settings["ratio"], rows["old"], sampling, mask)
    fake = trainer_of(settings, rows["entropy"], logps)
    trainer = POLICY_TRAINERS.get(settings.get("trainer"), GRPOTrainer)
    loss = trainer._compute_loss(fake, fake.model, inputs)
    loss.backward()
    return {"value": loss.item(), "gradient": logps.grad.tolist()}


def answer(loss, logits):
    loss.backward()
    return {"value": loss.item(), "gradient": logits.grad.flatten(1).tolist()}


def labels_of(batch):
    return batch["ids"].long().masked_fill(batch["mask"] == 0, -100)


def sft(settings, batch):
    """`chunked_nll` is TRL's own function; `nll` is that of the model, which its trainer leaves the loss to."""
    logits, count = batch["logits"].clone().requires_grad_(True), settings.get("num_items_in_batch")
    width = logits.shape[-1]
    if settings["loss_type"] == "chunked_nll":
        loss = _chunked_cross_entropy_loss(logits, torch.eye(width), 4, labels=labels_of(batch), num_items_in_batch=count)[0]
    else:
        loss = ForCausalLMLoss(logits, labels_of(batch), width, num_items_in_batch=count)
    return answer(loss, logits)


class Model(torch.nn.Module):
    """Gives the logits that it was made with."""

    is_gradient_checkpointing = False

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def forward(self, **_):
        return SimpleNamespace(logits=self.logits)


def dpo(settings, batch):
    """The first half of the rows is chosen, the second rejected."""
    logits = batch["logits"].clone().requires_grad_(True)
    device = torch.device("cpu")
    precomputed = settings.get("reference") == "none"
    model = Model(logits)
    fake = SimpleNamespace(
        model=model,
        args=SimpleNamespace(gradient_checkpointing_kwargs=None),
        accelerator=SimpleNamespace(device=device, gather=lambda x: x, gather_for_metrics=lambda x: x),
        ref_model=Model(batch["reference"]),
        aux_loss_enabled=False,
        ld_alpha=None,
        precompute_ref_logps=precomputed,
        f_divergence_type="reverse_kl",
        loss_types=[settings["loss_type"]],
        loss_weights=[1.0],
        beta=settings["beta"],
        label_smoothing=settings.get("label_smoothing", 0.0),
        use_weighting=False,
        _total_train_tokens=0,
        _tp_size=1,
        _metrics={"train": defaultdict(list)},
    )
    inputs = {"input_ids": batch["ids"].long(), "completion_mask": batch["mask"], "attention_mask": torch.ones_like(batch["mask"])}
    nothing = torch.zeros(len(logits) // 2)
    inputs |= {"ref_chosen_logps": nothing, "ref_rejected_logps": nothing} if precomputed else {}
    return answer(DPOTrainer._compute_loss(fake, model, inputs, False), logits)


def distillation(settings, batch):
    """Both trainers that know the whole distribution of the teacher."""
    logits, beta = batch["logits"].clone().requires_grad_(True), settings["beta"]
    if settings["trainer"] == "gkd":
        loss = GKDTrainer.generalized_jsd_loss(logits, batch["reference"], labels=labels_of(batch), beta=beta)
    else:
        head = torch.eye(logits.shape[-1])
        loss = _chunked_divergence_loss(logits, batch["reference"], head, head, batch["mask"], float(beta), 4)[0]
    return answer(loss, logits)


def advantages(settings, rows):
    """What the trainers make of rewards, in place of a gradient."""
    rewards = rows["rewards"]
    names = {"num_generations": settings["num_generations"], "device": rewards.device}
    if settings["trainer"] == "rloo":
        own = SimpleNamespace(beta=settings["beta"], normalize_advantages=settings["normalize_advantages"])
        kl = {"old_per_token_logps": rows["old"], "ref_per_token_logps": rows["reference"], "completion_mask": rows["mask"]}
        names |= {"self": own, "rewards": rewards.sum(1), "gather": lambda x: x, **kl}
        left = run_lines(
            RLOOTrainer._generate_and_score_completions, "# Include the KL penalty in the reward", "is_std_zero = ", names
        )
    else:
        own = SimpleNamespace(
            multi_objective_aggregation=settings.get("multi_objective_aggregation", "sum_then_normalize"),
            scale_rewards=settings.get("scale_rewards", "group"),
            reward_weights=torch.tensor(settings["reward_weights"]),
            reward_funcs=settings["reward_weights"],
        )
        names |= {"self": own, "rewards_per_func": rewards}
        left = run_lines(
            GRPOTrainer._generate_and_score_completions, "unscorable_mask = ", "# Slice to keep only the local part", names
        )
    result = left["advantages"]
    return {"value": result.abs().sum().item(), "gradient": result.unsqueeze(1).tolist()}


KINDS = {"policy": policy, "sft": sft, "dpo": dpo, "distillation": distillation, "advantages": advantages}


def run(case):
    rows = {name: torch.tensor(x, dtype=torch.float64) for name, x in case["rows"].items()}
    return KINDS[case["kind"]](case["settings"], rows)


json.dump({"version": trl.__version__, "results": [run(case) for case in json.load(sys.stdin)]}, sys.stdout)
