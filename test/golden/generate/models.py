"""Small checkpoints with what Hugging Face Transformers computes on them.

    python -P models.py ../models [NAME ...]

`-P` keeps safetensors.py of this folder from being taken for the package. Writes <name>/{model.safetensors,config.json,
expected.json}. Made with torch 2.13.0 and transformers 5.17.0, float32, eager attention. expected.json: input_ids,
attention_mask, logits, loss, grad_norms, greedy (null where frequencies depend on the length of the text, which its cache
forgets), and for the last tokens of each row, taken as a completion: log-probabilities, their gradient norms and the
entropy.
"""
import json
import pathlib
import sys

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

SIZES = dict(hidden_size=32, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
TINY = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
GPT2 = dict(n_embd=16, n_layer=2, n_head=4, n_positions=32)
GEMMA = dict(TINY, head_dim=8, sliding_window=4, query_pre_attn_scalar=12)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=8)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
LONG = dict(rope_type="longrope", short_factor=[1.0, 1.5], long_factor=[2.0, 5.0])

# name -> family, fields. The first two are larger; the rest have 12 tokens a row, and are made to show every feature of a family.
MODELS = {
    "qwen2": ("qwen2", dict(SIZES, tie_word_embeddings=True)),
    "llama": ("llama", dict(SIZES, tie_word_embeddings=False, rope_theta=500000.0, head_dim=16)),
    "gpt2": ("gpt2", GPT2),
    "gpt2_variant": ("gpt2", dict(GPT2, n_inner=24, scale_attn_by_inverse_layer_idx=True, activation_function="gelu",
                                  tie_word_embeddings=False)),
    "gpt_neo": ("gpt_neo", dict(hidden_size=16, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]],
                                window_size=4, max_position_embeddings=32)),
    "llama_biases": ("llama", dict(TINY, attention_bias=True, mlp_bias=True, head_dim=8, tie_word_embeddings=True)),
    "llama_linear": ("llama", dict(TINY, rope_scaling=dict(rope_type="linear", factor=4.0))),
    # longer than max_position_embeddings: the frequencies depend on the length of the rows
    "llama_dynamic": ("llama", dict(TINY, max_position_embeddings=8, rope_scaling=dict(rope_type="dynamic", factor=4.0))),
    "llama_llama3": ("llama", dict(TINY, head_dim=8, max_position_embeddings=128, rope_scaling=LLAMA3)),
    "llama_yarn": ("llama", dict(TINY, head_dim=8, max_position_embeddings=32, rope_scaling=YARN)),
    "llama_yarn_exact": ("llama", dict(TINY, head_dim=8, max_position_embeddings=32, rope_scaling=dict(
        YARN, truncate=False, beta_fast=4.0, beta_slow=2.0, mscale=1.5, mscale_all_dim=0.5))),
    "mistral": ("mistral", dict(TINY, sliding_window=4)),
    "qwen2_window": ("qwen2", dict(TINY, use_sliding_window=True, sliding_window=4, max_window_layers=1)),
    "qwen3": ("qwen3", dict(TINY, head_dim=8, attention_bias=True)),
    "gemma2": ("gemma2", GEMMA),
    "gemma3": ("gemma3_text", dict(GEMMA, layer_types=["sliding_attention", "full_attention"],
                                   final_logit_softcapping=20.0, rope_scaling=dict(rope_type="linear", factor=8.0))),
    "phi3": ("phi3", dict(TINY, pad_token_id=0)),
    "phi3_partial": ("phi3", dict(TINY, pad_token_id=0, hidden_size=32, partial_rotary_factor=0.5, sliding_window=4)),
    # longer than the original length: the long factors are used
    "phi3_longrope": ("phi3", dict(TINY, pad_token_id=0, max_position_embeddings=32, original_max_position_embeddings=8,
                                   rope_scaling=LONG)),
    "olmo2": ("olmo2", TINY),
    "smollm3": ("smollm3", dict(TINY, pad_token_id=0, no_rope_layers=[1, 0])),
    "smollm3_window": ("smollm3", dict(TINY, pad_token_id=0, no_rope_layers=[1, 0], use_sliding_window=True,
                                       sliding_window=4, attention_bias=True)),
}


def make(seed, name, folder):
    family, fields = MODELS[name]
    first = seed < 2
    vocabulary, length, padding, completion, new = (48, 20, 5, 8, 12) if first else (32, 12, 3, 5, 6)
    torch.manual_seed(seed)
    config = AutoConfig.for_model(family, vocab_size=vocabulary, bos_token_id=1, eos_token_id=2, **fields)
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():  # larger than the initial values, so that a wrong detail shows
        for x in model.parameters():
            x.add_((0.1 if first else 0.3) * torch.randn_like(x))
    out = folder / name
    model.save_pretrained(out)
    (out / "generation_config.json").unlink(missing_ok=True)
    model = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, attn_implementation="eager")

    ids = torch.randint(3, vocabulary, (3, length))
    mask = torch.ones_like(ids)
    mask[1, :padding] = 0
    ids[1, :padding] = 2
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    given = dict(attention_mask=mask, position_ids=positions)
    result = model(input_ids=ids, labels=ids.masked_fill(mask == 0, -100), **given)
    result.loss.backward()
    norms = {n: x.grad.norm().item() for n, x in model.named_parameters() if x.grad is not None}
    model.zero_grad()
    logits = model(input_ids=ids, **given).logits[:, -completion - 1:-1]
    log_probs = logits.log_softmax(-1)
    entropy = -(log_probs.exp() * log_probs).sum(-1)
    chosen = log_probs.gather(-1, ids[:, -completion:, None])[..., 0]
    chosen.sum().backward()
    greedy = None
    if name not in ("llama_dynamic", "phi3_longrope"):
        with torch.no_grad():
            greedy = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=new, min_new_tokens=new)
            greedy = greedy[:, length:].tolist()
    logits = result.logits.tolist()
    if not first:  # a third of the size
        logits = [[[round(x, 6) for x in row] for row in rows] for rows in logits]
    (out / "expected.json").write_text(json.dumps({
        "torch": torch.__version__, "transformers": transformers.__version__, "family": family, "seed": seed,
        "input_ids": ids.tolist(), "attention_mask": mask.tolist(), "logits": logits,
        "loss": result.loss.item(), "grad_norms": norms, "greedy": greedy,
        "completion": {
            "log_probs": chosen.tolist(), "entropy": entropy.tolist(),
            "grad_norms": {n: x.grad.norm().item() for n, x in model.named_parameters() if x.grad is not None},
        },
    }))


names = sys.argv[2:] or list(MODELS)
for seed, name in enumerate(MODELS):
    if name in names:
        make(seed, name, pathlib.Path(sys.argv[1]))
