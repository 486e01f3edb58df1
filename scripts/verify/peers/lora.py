"""Adapters through PEFT, for lora.ts.

    lora.py make BASE OUT SEED       an adapter of random settings with expected.json
    lora.py logits BASE ADAPTER      expected.json for an adapter that somebody else wrote
"""
import json
import pathlib
import random
import sys
import warnings

import peft
import torch
from transformers import AutoModelForCausalLM

warnings.filterwarnings("ignore")
PROMPT = 4


def expect(model, seed, vocabulary, folder):
    torch.manual_seed(seed)
    ids = torch.randint(3, vocabulary, (3, 20))
    with torch.no_grad():
        logits = model(input_ids=ids).logits
        with model.disable_adapter():
            change = (model(input_ids=ids).logits - logits).abs().max().item()
    (folder / "expected.json").write_text(json.dumps({
        "input_ids": ids.tolist(), "logits": logits[:, PROMPT - 1:-1].tolist(), "change": change,
    }))


command, base_folder, out = sys.argv[1:4]
out = pathlib.Path(out)
base = AutoModelForCausalLM.from_pretrained(base_folder, dtype=torch.float32, attn_implementation="eager")
vocabulary = base.config.vocab_size
if command == "make":
    seed = int(sys.argv[4])
    torch.manual_seed(seed)
    draw = random.Random(seed)
    linear = sorted({name.rsplit(".", 1)[-1] for name, module in base.named_modules()
                     if type(module).__name__ in ("Linear", "Conv1D") and name != "lm_head"})
    some = draw.sample(linear, draw.randint(1, len(linear)))
    layers = draw.choice([None, [draw.randrange(base.config.num_hidden_layers)]])
    whole = draw.random() < 0.3
    model = peft.get_peft_model(base, peft.LoraConfig(
        task_type="CAUSAL_LM", r=draw.randint(1, 9), lora_alpha=draw.randint(1, 32), lora_dropout=draw.choice([0.0, 0.1]),
        target_modules="all-linear" if whole else some, use_rslora=draw.random() < 0.5,
        layers_to_transform=None if whole else layers,
        rank_pattern={} if whole else {some[0]: draw.randint(1, 5)}, alpha_pattern={} if whole else {some[-1]: 7},
    )).eval()
    with torch.no_grad():
        for name, x in model.named_parameters():
            if "lora_B" in name:
                x.copy_(0.1 * torch.randn_like(x))
    model.save_pretrained(out)
else:
    seed = 0
    model = peft.PeftModel.from_pretrained(base, out).eval()
expect(model, seed, vocabulary, out)
