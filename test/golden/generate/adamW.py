"""Five steps of torch.optim.AdamW with gradient clipping on two small tensors.

    python adamW.py > ../adamW.json

Made with torch 2.13.0, float64 gradients in float32 parameters.
"""
import json

import torch

torch.manual_seed(0)
STEPS = 5
start = {"a": torch.randn(2, 3), "b": torch.randn(4)}
grads = [{name: torch.randn_like(x) * (10 if step == 2 else 0.1) for name, x in start.items()} for step in range(STEPS)]
cases = []
for options in [dict(lr=1e-2, weight_decay=0.0), dict(lr=3e-3, weight_decay=0.1, betas=(0.8, 0.95), eps=1e-6)]:
    params = {name: x.clone().requires_grad_() for name, x in start.items()}
    optimizer = torch.optim.AdamW(params.values(), **options)
    trace = []
    for step in grads:
        for name, x in params.items():
            x.grad = step[name].clone()
        norm = torch.nn.utils.clip_grad_norm_(params.values(), 1.0)
        optimizer.step()
        trace.append({"norm": norm.item(), "params": {name: x.tolist() for name, x in params.items()}})
    cases.append({"options": options, "trace": trace})
print(json.dumps({
    "torch": torch.__version__,
    "start": {name: x.tolist() for name, x in start.items()},
    "grads": [{name: x.tolist() for name, x in step.items()} for step in grads],
    "cases": cases,
}))
