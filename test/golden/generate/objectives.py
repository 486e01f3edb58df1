"""Losses that learn from completions, pairs, teachers and returns, in float64 with their gradients.

    python -P objectives.py > ../objectives.json     # -P: safetensors.py beside it is not the package

Made with torch 2.13.0 and TRL 1.13.0. DPO and IPO are TRL's DPOTrainer on a model that is a table of logits; the exact divergences are its
GKDTrainer.generalized_jsd_loss. TRL has no label smoothing any more, and no loss of SFT and distillation with TorchRL's settings: those are
the formulas of the papers, differentiated by torch.
"""
import json
from collections import defaultdict
from types import SimpleNamespace

import torch
import torch.nn.functional as F
import trl
from trl.experimental.gkd.gkd_trainer import GKDTrainer
from trl.trainer.dpo_trainer import DPOTrainer

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
B, T, V = 3, 4, 5
MASK = torch.tensor([[1, 1, 0, 1], [1, 1, 1, 0], [1, 0, 0, 0]])
OTHER_MASK = torch.tensor([[1, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0]])


def log_probs():
    return torch.randn(B, T, V).log_softmax(-1)[..., 0]


sides = {name: {"logProbs": log_probs(), "refLogProbs": log_probs(), "mask": mask} for name, mask in [("chosen", MASK), ("rejected", OTHER_MASK)]}
STUDENT, TEACHER = torch.randn(B, T, V) * 2, torch.randn(B, T, V) * 2


def graded(loss, *inputs):
    inputs = [x.clone().requires_grad_() for x in inputs]
    value = loss(*inputs)
    value.backward()
    return {"value": value.item(), "gradients": [x.grad.tolist() for x in inputs]}


def table(rows):
    """Logits over two tokens, of which token 0 has these log-probabilities, with one position before and one behind."""
    both = torch.stack([rows, torch.log1p(-rows.exp())], -1)
    return torch.cat([both, torch.zeros(rows.shape[0], 1, 2)], 1)


def trl_dpo(loss_type, beta):
    mask = torch.cat([MASK, OTHER_MASK])
    inputs = {
        "input_ids": torch.zeros(2 * B, T + 1, dtype=torch.long),
        "attention_mask": torch.ones(2 * B, T + 1, dtype=torch.long),
        "completion_mask": torch.cat([torch.zeros(2 * B, 1, dtype=torch.long), mask], 1),
    }
    reference = torch.cat([side["refLogProbs"] for side in sides.values()])

    def loss(chosen, rejected):
        gather = SimpleNamespace(device="cpu", gather=lambda x: x, gather_for_metrics=lambda x: x)
        trainer = SimpleNamespace(
            accelerator=gather, model=SimpleNamespace(training=True), aux_loss_enabled=False, ld_alpha=None, precompute_ref_logps=True,
            f_divergence_type="reverse_kl", loss_types=[loss_type], loss_weights=[1.0], beta=beta, label_smoothing=0.0, use_weighting=False,
            _total_train_tokens=0, _tp_size=1, _metrics=defaultdict(lambda: defaultdict(list)), args=SimpleNamespace(),
        )
        sums = (reference * mask).sum(1)
        given = {**inputs, "ref_chosen_logps": sums[:B], "ref_rejected_logps": sums[B:]}
        rows = torch.cat([chosen, rejected])
        result = DPOTrainer._compute_loss(trainer, lambda **_: SimpleNamespace(logits=table(rows)), given, False)
        metrics = trainer._metrics["train"]
        trl_dpo.metrics = {"accuracy": metrics["rewards/accuracies"][0], "chosen": metrics["rewards/chosen"][0], "rejected": metrics["rewards/rejected"][0]}
        return result

    numbers = graded(loss, sides["chosen"]["logProbs"], sides["rejected"]["logProbs"])
    return {**numbers, **trl_dpo.metrics}


def smoothed(beta, epsilon):
    def loss(chosen, rejected):
        ratio = lambda rows, side: ((rows - side["refLogProbs"]) * side["mask"]).sum(1)
        h = beta * (ratio(chosen, sides["chosen"]) - ratio(rejected, sides["rejected"]))
        return (-(1 - epsilon) * F.logsigmoid(h) - epsilon * F.logsigmoid(-h)).mean()

    return graded(loss, sides["chosen"]["logProbs"], sides["rejected"]["logProbs"])


def reference_free(beta):
    def loss(chosen, rejected):
        return -F.logsigmoid(beta * ((chosen * MASK).sum(1) - (rejected * OTHER_MASK).sum(1))).mean()

    return graded(loss, sides["chosen"]["logProbs"], sides["rejected"]["logProbs"])


def sft(minor, normalized, coefficient=0.0):
    reference = sides["chosen"]["refLogProbs"]
    lengths = MASK.sum(1) if normalized else torch.ones(B)

    def loss(rows):
        score = (rows * MASK).sum(1) / lengths
        if minor:
            return -F.logsigmoid(0.3 * (score - (reference * MASK).sum(1) / lengths)).mean()
        d = reference - rows
        return -score.mean() + coefficient * ((d.exp() - 1 - d) * MASK).sum() / MASK.sum()

    return graded(loss, sides["chosen"]["logProbs"])


def distillation(direction, normalized):
    def loss(rows):
        x = (sides["chosen"]["refLogProbs"] - rows) * (1 if direction == "reverse" else -1)
        sums = ((x.exp() - 1 - x) * MASK).sum(1)
        return (sums / MASK.sum(1) if normalized else sums).mean()

    return graded(loss, sides["chosen"]["logProbs"])


def exact(beta):
    return graded(lambda x: GKDTrainer.generalized_jsd_loss(x, TEACHER, beta=beta, reduction="sum"), STUDENT)


print(json.dumps(
    {
        "torch": torch.__version__,
        "trl": trl.__version__,
        **{name: {key: rows.tolist() for key, rows in side.items()} for name, side in sides.items()},
        "student": STUDENT.tolist(),
        "teacher": TEACHER.tolist(),
        "dpo": {
            "sigmoid": trl_dpo("sigmoid", 0.5),
            "sigmoid_norm": trl_dpo("sigmoid_norm", 0.5),
            "ipo": trl_dpo("ipo", 0.5),
            "smoothed": smoothed(0.5, 0.1),
            "referenceFree": reference_free(0.5),
        },
        "sft": {
            "sft": sft(False, True),
            "sft, sums": sft(False, False),
            "sft, divergence": sft(False, True, 0.2),
            "minor_sft": sft(True, True),
            "minor_sft, sums": sft(True, False),
        },
        "distillation": {f"{d}{', sums' if not n else ''}": distillation(d, n) for d in ("reverse", "forward") for n in (True, False)},
        "divergence": {"forward": exact(0), "reverse": exact(1), "mixed": exact(0.3)},
    }
))
