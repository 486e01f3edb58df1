"""What the reference implementation says of files: prints a list of verdicts, and writes the first ones again.

    python safetensors.py FOLDER WRITTEN

reads 0.in, 1.in, ... in FOLDER. The first WRITTEN of them become tensors of torch, which are saved as 0.out, 1.out, ...
"""
import json
import sys
from pathlib import Path

import torch
from safetensors import SafetensorError, deserialize
from safetensors.torch import save

# `safetensors.torch.load` does not know all of these.
TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U64": torch.uint64, "U32": torch.uint32, "U16": torch.uint16, "U8": torch.uint8, "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "F8_E8M0": torch.float8_e8m0fnu,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
}


def tensor_of(entry):
    dtype, shape = TYPES[entry["dtype"]], entry["shape"]
    if len(entry["data"]) == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(entry["data"]), dtype=dtype).reshape(shape)


folder, written = Path(sys.argv[1]), int(sys.argv[2])
verdicts = []
count = sum(1 for path in folder.iterdir() if path.suffix == ".in")
for i in range(count):
    data = (folder / f"{i}.in").read_bytes()
    try:
        deserialize(data)
        verdicts.append(True)
    except SafetensorError:
        verdicts.append(False)
    if i < written:
        (folder / f"{i}.out").write_bytes(save({name: tensor_of(entry) for name, entry in deserialize(data)}))
print(json.dumps(verdicts))
