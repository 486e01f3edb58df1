"""Losses and gradients of TRL's trainers on a golden model: `python -P steps.py GOLDEN_FOLDER > GOLDEN_FOLDER/steps.json` (-P: this folder has a
safetensors.py).

SFT is the loss that Transformers' models compute for SFTTrainer from labels of completions, DPO is DPOTrainer._compute_loss with reference log-probabilities that were computed before, distillation is
GKDTrainer.generalized_jsd_loss of the logits of two models, the value function is a linear layer on the last hidden states, cut as TRL's PPOTrainer
cuts it, under its clipped loss. A gradient is given by its norm and by its product with cos(0), cos(1), ... of all its numbers.
"""
import json
import pathlib
import sys
from collections import defaultdict
from types import SimpleNamespace

import torch
import transformers
import trl
from transformers import AutoModelForCausalLM
from trl.experimental.gkd.gkd_trainer import GKDTrainer
from trl.trainer.dpo_trainer import DPOTrainer

FAMILY, TEACHER = "llama", "qwen2"
folder = pathlib.Path(sys.argv[1]) / "models"
load = lambda name: AutoModelForCausalLM.from_pretrained(folder / name, dtype=torch.float32, attn_implementation="eager")
model, teacher = load(FAMILY), load(TEACHER)
V = min(model.config.vocab_size, teacher.config.vocab_size)
torch.manual_seed(0)
draw = lambda n: torch.randint(3, V, (n,)).tolist()
prompts, chosen, rejected = [draw(4), draw(7), draw(2)], [draw(5), draw(3), draw(6)], [draw(2), draw(6), draw(3)]


def batch(prompts, completions):
    """Right-padded, as TRL's collators make it."""
    width = max(len(p) + len(c) for p, c in zip(prompts, completions))
    pad = lambda rows: torch.tensor([row + [0] * (width - len(row)) for row in rows])
    return {
        "input_ids": pad([p + c for p, c in zip(prompts, completions)]),
        "attention_mask": pad([[1] * len(p + c) for p, c in zip(prompts, completions)]),
        "completion_mask": pad([[0] * len(p) + [1] * len(c) for p, c in zip(prompts, completions)]),
    }


def measured(loss, net=model, **more):
    net.zero_grad()
    loss.backward()
    grads = {name: p.grad.double().flatten() for name, p in net.named_parameters()}
    described = {name: [g.norm().item(), (g @ torch.arange(len(g)).double().cos()).item()] for name, g in grads.items()}
    return {"loss": loss.item(), "gradients": described, **more}


def sft():
    rows = batch(prompts, chosen)
    labels = rows["input_ids"].masked_fill(rows.pop("completion_mask") == 0, -100)
    return measured(model(**rows, labels=labels, num_items_in_batch=(labels != -100).sum()).loss)


def log_probs(net, rows):
    logits = net(input_ids=rows["input_ids"], attention_mask=rows["attention_mask"]).logits[:, :-1]
    return logits.log_softmax(-1).gather(-1, rows["input_ids"][:, 1:, None])[..., 0] * rows["completion_mask"][:, 1:]


def dpo(loss_type, beta):
    rows = batch(prompts * 2, chosen + rejected)
    with torch.no_grad():
        reference = log_probs(teacher, rows).sum(-1)
    gather = SimpleNamespace(device="cpu", gather=lambda x: x, gather_for_metrics=lambda x: x)
    trainer = SimpleNamespace(
        accelerator=gather, model=model, aux_loss_enabled=False, ld_alpha=None, precompute_ref_logps=True, f_divergence_type="reverse_kl",
        loss_types=[loss_type], loss_weights=[1.0], beta=beta, label_smoothing=0.0, use_weighting=False,
        _metrics=defaultdict(lambda: defaultdict(list)), _total_train_tokens=0,
    )
    n = len(prompts)
    given = {**rows, "ref_chosen_logps": reference[:n], "ref_rejected_logps": reference[n:]}
    loss = DPOTrainer._compute_loss(trainer, model, given, False)
    metrics = trainer._metrics["eval"]  # without dropout
    return measured(loss, chosen=metrics["rewards/chosen"][0], rejected=metrics["rewards/rejected"][0], accuracy=metrics["rewards/accuracies"][0])


def distillation(beta):
    rows = batch(prompts, chosen)
    logits = lambda net: net(input_ids=rows["input_ids"], attention_mask=rows["attention_mask"]).logits[:, :-1, :V]
    with torch.no_grad():
        taught = logits(teacher)
    labels = rows["input_ids"].masked_fill(rows["completion_mask"] == 0, -100)[:, 1:]
    return measured(GKDTrainer.generalized_jsd_loss(logits(model), taught, labels=labels, beta=beta))


def value(epsilon):
    rows = batch(prompts, chosen)
    head = torch.linspace(-1, 1, model.config.hidden_size)
    returns = [[(-1.0) ** (i + t) * 9 for t in range(len(c))] for i, c in enumerate(chosen)]
    old = [[0.1 * t for t in range(len(c))] for c in chosen]
    states = model(input_ids=rows["input_ids"], attention_mask=rows["attention_mask"], output_hidden_states=True).hidden_states[-1]
    values = (states @ head + 0.3)[:, :-1][rows["completion_mask"][:, 1:] == 1]
    flat = lambda lists: torch.tensor([x for row in lists for x in row])
    clipped = torch.clamp(values, flat(old) - epsilon, flat(old) + epsilon)
    loss = 0.5 * torch.max((values - flat(returns)) ** 2, (clipped - flat(returns)) ** 2).mean()
    result = measured(loss) if model.config.tie_word_embeddings else measured(loss + 0 * model.lm_head.weight.sum())
    return {**result, "head": head.tolist(), "bias": 0.3, "returns": returns, "oldValues": old, "values": values.tolist()}


json.dump({
    "torch": torch.__version__, "transformers": transformers.__version__, "trl": trl.__version__, "model": FAMILY, "teacher": TEACHER,
    "prompts": prompts, "chosen": chosen, "rejected": rejected,
    "sft": sft(), "dpo": {"sigmoid": dpo("sigmoid", 0.3), "ipo": dpo("ipo", 0.3)},
    "distillation": {"forward": distillation(0), "reverse": distillation(1), "0.3": distillation(0.3)},
    "value": value(0.4),
}, sys.stdout)
print()
