"""What PyTorch reads from pickles: `python checkSGLang.py`, one base64 text a line on standard input, JSON a line on standard output."""
import base64
import hashlib
import json
import sys

import torch

sys.path.insert(0, __file__.rsplit("/", 1)[0] + "/engines")
import sglangUnpickler  # noqa: E402

for line in sys.stdin:
    loaded = dict(sglangUnpickler.load(base64.b64decode(line.strip(), validate=True)))
    print(json.dumps([
        {
            "name": name,
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "shape": list(tensor.shape),
            "contiguous": tensor.is_contiguous(),
            "sha256": hashlib.sha256(tensor.flatten().view(torch.uint8).numpy().tobytes()).hexdigest(),
        }
        for name, tensor in loaded.items()
    ]))
