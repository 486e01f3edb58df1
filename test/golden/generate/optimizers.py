"""Five steps of SGD, Adafactor and Muon of torch.optim, and of Lion by its paper, on two small tensors.

    python optimizers.py > ../optimizers.json

Made with torch 2.13.0. Muon: torch iterates in bfloat16; here its iteration runs in float64, with torch's own result beside it to two digits.
"""
import json

import torch

torch.manual_seed(0)
STEPS = 5
matrices = {"a": torch.randn(2, 3, dtype=torch.float64), "tall": torch.randn(4, 2, dtype=torch.float64)}
start = {**matrices, "b": torch.randn(4, dtype=torch.float64)}
grads = [{name: torch.randn_like(x) for name, x in start.items()} for _ in range(STEPS)]


def trace_of(make, tensors):
    params = {name: x.clone().requires_grad_() for name, x in tensors.items()}
    optimizer = make(list(params.values()))
    trace = []
    for step in grads:
        for name, x in params.items():
            x.grad = step[name].clone()
        optimizer.step()
        trace.append({name: x.tolist() for name, x in params.items()})
    return trace


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr, betas, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (b1, b2), lr = group["betas"], group["lr"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p.mul_(1 - lr * group["weight_decay"])
                p.sub_(lr * (b1 * m + (1 - b1) * p.grad).sign())
                self.state[p]["m"] = b2 * m + (1 - b2) * p.grad


class Muon(torch.optim.Optimizer):
    """torch.optim.Muon with its iteration in float64."""

    def __init__(self, params, lr, weight_decay, momentum, nesterov, match):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov, match=match))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                mu, lr = group["momentum"], group["lr"]
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                m.lerp_(p.grad, 1 - mu)
                x = p.grad.lerp(m, mu) if group["nesterov"] else m.clone()
                tall = x.size(0) > x.size(1)
                x = x.T if tall else x
                x = x / x.norm().clamp(min=1e-7)
                for _ in range(5):
                    s = x @ x.T
                    x = 3.4445 * x + (-4.775 * s + 2.0315 * s @ s) @ x
                x = x.T if tall else x
                rows, columns = p.shape
                scale = 0.2 * max(rows, columns) ** 0.5 if group["match"] else max(1, rows / columns) ** 0.5
                p.mul_(1 - lr * group["weight_decay"])
                p.sub_(lr * scale * x)


cases = []
for name, options, make, tensors in [
    ("sgd", {}, lambda ps: torch.optim.SGD(ps, lr=0.1), start),
    ("sgd", {"momentum": 0.9, "weightDecay": 0.1}, lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.1), start),
    ("sgd", {"momentum": 0.9, "form": "nesterov"}, lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True), start),
    ("adafactor", {"epsilon1": 2.220446049250313e-16}, lambda ps: torch.optim.Adafactor(ps, lr=0.1), start),
    ("adafactor", {"epsilon1": 1e-7, "epsilon2": 0.01, "clip": 1.5, "decay": -0.5, "weightDecay": 0.1},
     lambda ps: torch.optim.Adafactor(ps, lr=0.1, eps=(1e-7, 0.01), d=1.5, beta2_decay=-0.5, weight_decay=0.1), start),
    ("lion", {"weightDecay": 0.1}, lambda ps: Lion(ps, 0.1, (0.9, 0.99), 0.1), start),
    ("muon", {}, lambda ps: Muon(ps, 0.1, 0.1, 0.95, True, False), matrices),
    ("muon", {"form": "classical", "scale": "match-adamw", "weightDecay": 0},
     lambda ps: Muon(ps, 0.1, 0.0, 0.95, False, True), matrices),
]:
    cases.append({"name": name, "options": options, "rate": 0.1, "trace": trace_of(make, tensors)})
rough = trace_of(lambda ps: torch.optim.Muon(ps, lr=0.1), matrices)
exact = next(case for case in cases if case["name"] == "muon")["trace"]
for ours, theirs in zip(exact, rough):
    for name in matrices:
        assert (torch.tensor(ours[name]) - torch.tensor(theirs[name])).abs().max() < 0.02, (ours, theirs)
print(json.dumps({
    "torch": torch.__version__,
    "start": {name: x.tolist() for name, x in start.items()},
    "grads": [{name: x.tolist() for name, x in step.items()} for step in grads],
    "cases": cases,
}))
