"""Adapters that PEFT makes for the golden models, with the logits that it computes with them: `python -P lora.py GOLDEN_FOLDER`
(-P: this folder has a safetensors.py)."""
import json
import pathlib
import sys

import peft
import torch
from transformers import AutoModelForCausalLM

ADAPTERS = {
    "qwen2": dict(r=3, lora_alpha=5, target_modules=["q_proj", "v_proj", "down_proj"], use_rslora=True,
                  layers_to_transform=[1], rank_pattern={"v_proj": 2}, alpha_pattern={"mlp.down_proj": 9}),
    "llama": dict(r=2, lora_alpha=4, target_modules="all-linear"),
    "gpt2": dict(r=2, lora_alpha=6, target_modules=["c_attn", "mlp.c_proj"], fan_in_fan_out=True),
    "llama_head": dict(r=2, lora_alpha=4, target_modules=["lm_head", "q_proj"]),
    "qwen2_head": dict(r=3, lora_alpha=4, target_modules=["lm_head"]),  # on tied embeddings
    "gpt2_head": dict(r=2, lora_alpha=4, target_modules=["lm_head", "c_attn"]),
}
golden = pathlib.Path(sys.argv[1])

for seed, (adapter, fields) in enumerate(ADAPTERS.items()):
    family = adapter.split("_")[0]
    torch.manual_seed(100 + seed)
    base = AutoModelForCausalLM.from_pretrained(golden / "models" / family, dtype=torch.float32, attn_implementation="eager")
    base.name_or_path = base.config._name_or_path = family  # not where this ran
    model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", base_model_name_or_path=family, **fields))
    with torch.no_grad():  # B begins as zeros: an adapter that does nothing would show nothing
        for name, x in model.named_parameters():
            if "lora_B" in name:
                x.copy_(0.2 * torch.randn_like(x))
    out = golden / "lora" / adapter
    model.save_pretrained(out)
    (out / "README.md").unlink(missing_ok=True)
    ids = torch.randint(3, base.config.vocab_size, (2, 12))
    with torch.no_grad():
        logits = model(input_ids=ids).logits
        with model.disable_adapter():
            without = model(input_ids=ids).logits
    (out / "expected.json").write_text(json.dumps({
        "torch": torch.__version__, "peft": peft.__version__, "input_ids": ids.tolist(),
        "logits": [[[round(x, 6) for x in row] for row in rows] for rows in logits[:, 3:-1].tolist()],
        "change": (logits - without).abs().max().item(),
    }) + "\n")
