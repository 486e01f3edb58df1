"""Files of every dtype, and the verdicts of the reference implementation on broken ones.

    python safetensors.py ../safetensors

Made with safetensors 0.8.0 and torch 2.13.0. `types.safetensors` has each dtype as a scalar, as empty tensors, as a row and as a
matrix; `types.json` says what it holds. `verdicts.json` lists small files, most of them malformed, and whether the reference reads them;
`difference` says why we refuse one that it reads.
"""
import base64
import json
import struct
import sys
from pathlib import Path

# This file has the name of the package it uses.
sys.path = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]

import safetensors  # noqa: E402
import torch  # noqa: E402
from safetensors import SafetensorError, deserialize  # noqa: E402
from safetensors.torch import save  # noqa: E402

folder = Path(sys.argv[1])

TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U64": torch.uint64, "U32": torch.uint32, "U16": torch.uint16, "U8": torch.uint8, "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "F8_E8M0": torch.float8_e8m0fnu,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
}
FLOATS = [1.5, -0.0, float("inf"), -float("inf"), float("nan"), 2.0**-24, 65504.0, 0.1]


def values(name):
    """Eight numbers at the edges of the type."""
    dtype = TYPES[name]
    if name == "BOOL":
        return torch.tensor([0, 1, 1, 0, 1, 0, 0, 1]).bool()
    if name.startswith("F8"):
        return torch.tensor([0, 1, 64, 127, 128, 129, 200, 255], dtype=torch.uint8).view(dtype)
    if dtype.is_floating_point:
        return torch.tensor(FLOATS, dtype=torch.float64).to(dtype)
    info = torch.iinfo(dtype)
    return torch.tensor([info.min, info.max, 0, 1, info.max - 1, info.min + 1, 2, 3], dtype=dtype)


SHAPES = {"scalar": ([], slice(0, 1)), "empty": ([0], slice(0, 0)), "flat": ([2, 0, 3], slice(0, 0)),
          "row": ([8], slice(0, 8)), "matrix": ([2, 3], slice(2, 8))}
tensors = {f"{name}.{kind}": values(name)[part].reshape(shape).clone()
           for name in TYPES for kind, (shape, part) in SHAPES.items()}
tensors["名前 \"quoted\"\n"] = torch.tensor([1.0])
(folder / "types.safetensors").write_bytes(save(tensors, metadata={"format": "pt"}))


def shown(name, tensor):
    if name.startswith("F8"):
        return [str(x) for x in tensor.reshape(-1).view(torch.uint8).tolist()]
    if name == "BOOL":
        return [str(int(x)) for x in tensor.reshape(-1).tolist()]
    return [repr(x).replace("inf", "Infinity").replace("nan", "NaN") for x in tensor.reshape(-1).tolist()]


(folder / "types.json").write_text(json.dumps({
    "safetensors": safetensors.__version__,
    "torch": torch.__version__,
    "tensors": {f"{name}.{kind}": {"dtype": name, "shape": SHAPES[kind][0], "values": shown(name, tensors[f"{name}.{kind}"])}
                for name in TYPES for kind in SHAPES},
}, indent=1) + "\n")

ONE = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
TWICE = "a key comes twice: which of the two counts is anybody's guess"
NO_WRITER = "no writer makes this form"
TOO_LARGE = "sizes from 2^53 are no safe integers"
TYPE = "the type cannot be held in a typed array"


def entry(text, n=4):
    return '{"x":' + text + "}", n


def field(dtype='"F32"', shape="[1]", offsets="[0,4]", more=""):
    return '{"x":{"dtype":%s,"shape":%s,"data_offsets":%s%s}}' % (dtype, shape, offsets, more)


CASES = [
    ("one tensor", field(), 4),
    ("no tensor", "{}", 0),
    ("no tensor, and a byte", "{}", 1),
    ("a byte too many", field(), 5),
    ("a byte too few", field(), 3),
    ("an unknown field", field(more=',"extra":1'), 4),
    ("a gap at the start", field(offsets="[4,8]"), 8),
    ("a gap in the middle", '{"a":' + ONE + ',"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}', 12),
    ("a name twice, with other places", '{"x":' + ONE + ',"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', 8),
    ("a name twice", '{"x":' + ONE + ',"x":' + ONE + "}", 4, TWICE),
    ("a name twice, once escaped", '{"x":' + ONE + ',"\\u0078":' + ONE + "}", 4, TWICE),
    ("a field twice", field(more=',"dtype":"F32"'), 4),
    ("metadata twice", '{"__metadata__":{},"__metadata__":{},"x":' + ONE + "}", 4),
    ("a metadata key twice", '{"__metadata__":{"a":"1","a":"2"},"x":' + ONE + "}", 4, TWICE),
    ("blanks before", " \n\t" + field(), 4),
    ("blanks behind", field() + " \n\t\r", 4),
    ("a zero byte behind", field() + "\0", 4),
    ("a size with a fraction", field(shape="[1.0]"), 4),
    ("a size with an exponent", field(shape="[1e0]"), 4),
    ("a negative zero", field(shape="[-0]", offsets="[0,0]"), 0),
    ("a leading zero", field(shape="[01]"), 4),
    ("a negative size", field(shape="[-1]"), 4),
    ("a size as text", field(shape='["1"]'), 4),
    ("a shape that is no list", field(shape="1"), 4),
    ("negative offsets", field(offsets="[-4,0]"), 4),
    ("offsets that end before they begin", field(offsets="[4,0]"), 4),
    ("three offsets", field(offsets="[0,4,8]"), 4),
    ("one offset", field(offsets="[0]"), 4),
    ("offsets as text", field(offsets='["0","4"]'), 4),
    ("offsets beyond the data", field(offsets="[0,8]", shape="[2]"), 4),
    ("offsets that do not fit the shape", field(shape="[2]"), 4),
    ("2^64 and no element", field(shape="[18446744073709551616,0]", offsets="[0,0]"), 0),
    ("2^63 and no element", field(shape="[9223372036854775808,0]", offsets="[0,0]"), 0, TOO_LARGE),
    ("no element, then an overflow", field(shape="[0,9007199254740991,9007199254740991]", offsets="[0,0]"), 0),
    ("an overflow, then no element", field(shape="[9007199254740991,9007199254740991,0]", offsets="[0,0]"), 0),
    ("an overflow of elements", field(shape="[1099511627776,1099511627776]"), 4),
    ("an overflow that wraps to 4", field(shape="[4611686018427387905]"), 4),
    ("metadata that are null", '{"__metadata__":null,"x":' + ONE + "}", 4),
    ("metadata that are empty", '{"__metadata__":{},"x":' + ONE + "}", 4),
    ("metadata that are a number", '{"__metadata__":1,"x":' + ONE + "}", 4),
    ("metadata that hold a number", '{"__metadata__":{"n":1},"x":' + ONE + "}", 4),
    ("metadata that hold null", '{"__metadata__":{"n":null},"x":' + ONE + "}", 4),
    ("a header that is a list", "[]", 0),
    ("a header that is a number", "1", 0),
    ("a header that is null", "null", 0),
    ("an entry that is a list", '{"x":["F32",[1],[0,4]]}', 4, NO_WRITER),
    ("an entry that is null", '{"x":null}', 0),
    ("a dtype that is an object", field(dtype='{"F32":null}'), 4, NO_WRITER),
    ("a dtype that is a number", field(dtype="1"), 4),
    ("a dtype in small letters", field(dtype='"f32"'), 4),
    ("a dtype that is a method of objects", field(dtype='"toString"'), 4),
    ("a missing shape", '{"x":{"dtype":"F32","data_offsets":[0,4]}}', 4),
    ("a missing dtype", '{"x":{"shape":[1],"data_offsets":[0,4]}}', 4),
    ("missing offsets", '{"x":{"dtype":"F32","shape":[1]}}', 4),
    ("a byte order mark", "\ufeff" + field(), 4),
    ("bytes that are no UTF-8", b'{"\xff":' + ONE.encode() + b"}", 4),
    ("a surrogate as UTF-8", b'{"\xed\xa0\x80":' + ONE.encode() + b"}", 4),
    ("half of an escaped surrogate pair", '{"\\ud800":' + ONE + "}", 4),
    ("an escaped surrogate pair", '{"\\ud83d\\ude00":' + ONE + "}", 4),
    ("a line break in a name", '{"a\nb":' + ONE + "}", 4),
    ("an escaped line break in a name", '{"a\\nb":' + ONE + "}", 4),
    ("an unknown escape", '{"\\x41":' + ONE + "}", 4),
    ("an escaped field name", '{"x":{"dtyp\\u0065":"F32","shape":[1],"data_offsets":[0,4]}}', 4),
    ("an empty name", '{"":' + ONE + "}", 4),
    ("a name without an end", '{"x', 0),
    ("a comma too many", '{"x":' + ONE + ",}", 4),
    ("a comma too few", '{"a":' + ONE + ' "b":' + ONE + "}", 4),
    ("an empty header", "", 0),
    ("only blanks", "   ", 0),
    ("NaN as a size", field(shape="[NaN]"), 4),
    ("a number beyond float64", field(more=',"extra":1e400'), 4),
    ("126 levels in an unknown field", field(more=',"extra":' + "[" * 124 + "]" * 124), 4),
    ("127 levels in an unknown field", field(more=',"extra":' + "[" * 125 + "]" * 125), 4),
    ("128 levels in an unknown field", field(more=',"extra":' + "[" * 126 + "]" * 126), 4),
    ("5000 levels", "[" * 5000 + "]" * 5000, 0),
    ("an unknown field that is half of a surrogate pair", field(more=',"extra":"\\ud800"'), 4),
    ("two empty tensors in one place", '{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}', 0),
    ("an empty tensor in the middle of another", '{"a":' + ONE + ',"b":{"dtype":"F32","shape":[0],"data_offsets":[2,2]}}', 4),
    ("an empty tensor at the end", '{"a":' + ONE + ',"b":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}}', 4),
    ("an empty tensor behind the end", '{"a":' + ONE + ',"b":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}}', 4),
    ("two tensors in one place", '{"a":' + ONE + ',"b":' + ONE + "}", 4),
    ("tensors listed from the back", '{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"b":' + ONE + "}", 8),
    ("a float at an odd place", '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}}', 5),
    ("an F4", field(dtype='"F4"', shape="[2]", offsets="[0,1]"), 1, TYPE),
    ("half of an F4", field(dtype='"F4"', shape="[1]", offsets="[0,1]"), 1),
    ("an F6", field(dtype='"F6_E2M3"', shape="[4]", offsets="[0,3]"), 3, TYPE),
    ("a C64", field(dtype='"C64"', shape="[1]", offsets="[0,8]"), 8, TYPE),
    ("an I4", field(dtype='"I4"', shape="[2]", offsets="[0,1]"), 1),
]


def file_of(header, count, length=None):
    header = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + bytes(range(1, count + 1))


def accepts(data):
    try:
        deserialize(data)
        return True
    except SafetensorError:
        return False


rows = [(title, file_of(header, count), *rest) for title, header, count, *rest in CASES]
whole = file_of(field(), 4)
rows += [
    ("nothing at all", b""),
    ("seven bytes", b"\0" * 7),
    ("a length of nothing", b"\0" * 8),
    ("a length of 2^64 - 1", b"\xff" * 8 + whole[8:]),
    ("a length of 2^63", file_of(field(), 4, 2**63)),
    ("a length one too long", file_of(field(), 4, len(whole) - 8 - 4 + 1)),
    ("a length one too short", file_of(field(), 4, len(whole) - 8 - 4 - 1)),
    ("a length of the whole file", file_of(field(), 4, len(whole))),
]
verdicts = []
for title, data, *difference in rows:
    row = {"title": title, "file": base64.b64encode(data).decode(), "accepted": accepts(data)}
    if difference:
        row["difference"] = difference[0]
    verdicts.append(row)
(folder / "verdicts.json").write_text(json.dumps({"safetensors": safetensors.__version__, "files": verdicts}, indent=1, ensure_ascii=True) + "\n")
