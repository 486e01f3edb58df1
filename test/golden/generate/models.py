"""Small checkpoints with what Hugging Face Transformers computes on them.

    python models.py ../models

Writes <family>/{model.safetensors,config.json,expected.json}. Made with torch 2.13.0 and transformers 5.17.0, float32,
eager attention. expected.json: input_ids, attention_mask, logits, loss, grad_norms, greedy, and for the last 8 tokens of
each row, taken as a completion: log-probabilities, their gradient norms and the entropy.
"""
import json
import pathlib
import sys

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

SIZES = dict(hidden_size=32, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
FAMILIES = {
    "qwen2": dict(SIZES, tie_word_embeddings=True),
    "llama": dict(SIZES, tie_word_embeddings=False, rope_theta=500000.0, head_dim=16),
}
VOCABULARY = 48

for seed, (family, fields) in enumerate(FAMILIES.items()):
    torch.manual_seed(seed)
    config = AutoConfig.for_model(family, vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=2, **fields)
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():  # larger than the initial values, so that a wrong detail shows
        for x in model.parameters():
            x.add_(0.1 * torch.randn_like(x))
    out = pathlib.Path(sys.argv[1]) / family
    model.save_pretrained(out)
    (out / "generation_config.json").unlink(missing_ok=True)
    model = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, attn_implementation="eager")

    ids = torch.randint(3, VOCABULARY, (3, 20))
    mask = torch.ones_like(ids)
    mask[1, :5] = 0
    ids[1, :5] = 2
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    result = model(input_ids=ids, attention_mask=mask, position_ids=positions, labels=ids.masked_fill(mask == 0, -100))
    result.loss.backward()
    norms = {n: x.grad.norm().item() for n, x in model.named_parameters() if x.grad is not None}
    model.zero_grad()
    logits = model(input_ids=ids, attention_mask=mask, position_ids=positions).logits[:, -9:-1]
    log_probs = logits.log_softmax(-1)
    entropy = -(log_probs.exp() * log_probs).sum(-1)
    chosen = log_probs.gather(-1, ids[:, -8:, None])[..., 0]
    chosen.sum().backward()
    with torch.no_grad():
        greedy = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=12, min_new_tokens=12)[:, 20:]
    (out / "expected.json").write_text(json.dumps({
        "torch": torch.__version__, "transformers": transformers.__version__, "family": family, "seed": seed,
        "input_ids": ids.tolist(), "attention_mask": mask.tolist(), "logits": result.logits.tolist(),
        "loss": result.loss.item(), "grad_norms": norms, "greedy": greedy.tolist(),
        "completion": {
            "log_probs": chosen.tolist(), "entropy": entropy.tolist(),
            "grad_norms": {n: x.grad.norm().item() for n, x in model.named_parameters() if x.grad is not None},
        },
    }))
