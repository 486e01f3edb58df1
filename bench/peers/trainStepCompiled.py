"""The peers' train_step.py with torch.compile: one graph of the forward pass, and one of the backward pass.

Each process compiles anew, in the first run, which is not among the timed ones.
"""
import json
import os
import shutil
import tempfile
import time

if shutil.which(os.environ.get("CXX", "g++")) is None:
    raise SystemExit("torch.compile needs a C++ compiler: apt-get install -y g++, or set CXX to one")

with tempfile.TemporaryDirectory() as cache:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache  # before torch is imported

    import torch

    from model import build, median, parser

    p = parser(__doc__)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--length", type=int, default=128)
    a = p.parse_args()
    model = build(a)
    ids = torch.randint(0, a.vocab - 3, (a.batch, a.length))
    loss = torch.compile(lambda rows: model(input_ids=rows, labels=rows).loss, fullgraph=True, dynamic=False)
    times = []
    for i in range(1 + a.warmup + a.runs):
        t = time.perf_counter()
        model.zero_grad(set_to_none=True)
        loss(ids).backward()
        times.append(time.perf_counter() - t)
    m = median(times[1 + a.warmup:])
    print(json.dumps({"program": "trainStepCompiled", "peer": f"torch.compile {torch.__version__}", **vars(a),
                      "parameters": sum(x.numel() for x in model.parameters()), "compile_seconds": times[0],
                      "seconds": m, "tokens_per_second": a.batch * a.length / m}))
