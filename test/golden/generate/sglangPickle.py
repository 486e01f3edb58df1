"""Pickles of tensors as they are sent to SGLang.

    python sglangPickle.py ../sglangPickle.json

Made with torch 2.13.0. Bytes are put together here a second time, with Python's own table of opcodes, and loaded by PyTorch through an
unpickler that lets three names through; `sha256` is that of the tensor's own memory, which is what SGLang compares an adapter with.
"""
import base64
import collections
import hashlib
import io
import json
import pickle
import pickletools
import struct
import sys

import torch

CODE = {opcode.name: opcode.code.encode("latin1") for opcode in pickletools.opcodes}
CLASSES = {"F32": ("FloatStorage", torch.float32), "F16": ("HalfStorage", torch.float16), "BF16": ("BFloat16Storage", torch.bfloat16)}
SHAPES = [(), (0,), (3,), (2, 3), (2, 0, 3), (2, 2, 2)]
NUMBERS = [1.5, -0.0, 0.1, 65504.0, -3.14159, 2.0**-24, 1e-3, 7.0]


def text(value):
    raw = value.encode()
    return CODE["BINUNICODE"] + struct.pack("<I", len(raw)) + raw


def integer(value):
    return CODE["BININT"] + struct.pack("<i", value)


def named(module, name):
    return CODE["GLOBAL"] + f"{module}\n{name}\n".encode()


def many(values):
    return CODE["MARK"] + b"".join(map(integer, values)) + CODE["TUPLE"]


def storage(kind, tensor, raw):
    start = CODE["PROTO"] + b"\x02"
    magic = 0x1950A86A20F9469CFC6C.to_bytes(10, "little")
    return b"".join([
        start, CODE["LONG1"], b"\x0a", magic, CODE["STOP"],
        start, integer(1001), CODE["STOP"],
        start, CODE["EMPTY_DICT"], CODE["STOP"],
        start, CODE["MARK"], text("storage"), named("torch", CLASSES[kind][0]), text("0"), text("cpu"),
        integer(tensor.numel()), CODE["NONE"], CODE["TUPLE"], CODE["BINPERSID"], CODE["STOP"],
        start, CODE["EMPTY_LIST"], text("0"), CODE["APPEND"], CODE["STOP"],
        struct.pack("<q", tensor.numel()), raw,
    ])


def pickled(kind, tensor, raw):
    file = storage(kind, tensor, raw)
    return b"".join([
        named("torch._utils", "_rebuild_tensor_v2"), CODE["MARK"],
        named("torch.storage", "_load_from_bytes"), CODE["BINBYTES8"], struct.pack("<Q", len(file)), file,
        CODE["TUPLE1"], CODE["REDUCE"], integer(0), many(tensor.shape), many(tensor.stride()), CODE["NEWFALSE"],
        named("collections", "OrderedDict"), CODE["EMPTY_TUPLE"], CODE["REDUCE"], CODE["TUPLE"], CODE["REDUCE"],
    ])


class Restricted(pickle.Unpickler):
    def find_class(self, module, name):
        allowed = {
            ("torch._utils", "_rebuild_tensor_v2"): torch._utils._rebuild_tensor_v2,
            ("torch.storage", "_load_from_bytes"): lambda data: torch.load(io.BytesIO(data), weights_only=True),
            ("collections", "OrderedDict"): collections.OrderedDict,
        }
        return allowed[module, name]


cases = []
for kind, (_, dtype) in CLASSES.items():
    tensors = {}
    for shape in SHAPES:
        count = torch.Size(shape).numel()
        tensors[f"{kind}.{'x'.join(map(str, shape)) or 'scalar'}"] = torch.tensor(NUMBERS[:count]).to(dtype).reshape(shape)
    raw = {name: tensor.flatten().view(torch.uint8).numpy().tobytes() for name, tensor in tensors.items()}
    start = CODE["PROTO"] + b"\x05"
    pairs = [(text(name), pickled(kind, tensor, raw[name])) for name, tensor in tensors.items()]
    forms = {
        "list": start + CODE["EMPTY_LIST"] + CODE["MARK"] + b"".join(n + t + CODE["TUPLE2"] for n, t in pairs) + CODE["APPENDS"] + CODE["STOP"],
        "dict": start + CODE["EMPTY_DICT"] + CODE["MARK"] + b"".join(n + t for n, t in pairs) + CODE["SETITEMS"] + CODE["STOP"],
    }
    for form, data in forms.items():
        loaded = dict(Restricted(io.BytesIO(data)).load())
        assert list(loaded) == list(tensors)
        for name, tensor in tensors.items():
            assert loaded[name].dtype == dtype and loaded[name].shape == tensor.shape and torch.equal(loaded[name], tensor)
    cases.append({
        "float": kind,
        "tensors": {
            name: {
                "shape": list(tensor.shape),
                "values": NUMBERS[: tensor.numel()],
                "sha256": hashlib.sha256(raw[name]).hexdigest(),
            }
            for name, tensor in tensors.items()
        },
        **{form: base64.b64encode(data).decode() for form, data in forms.items()},
    })

with open(sys.argv[1], "w") as file:
    json.dump({"torch": torch.__version__, "cases": cases}, file, indent=1)
    file.write("\n")
