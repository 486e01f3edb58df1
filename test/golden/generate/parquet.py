"""Writes packages/parquet/test/golden/*.parquet with pyarrow, and expected.json with the rows that are in them.

python test/golden/generate/parquet.py packages/parquet/test/golden
"""
import datetime
import json
import math
import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = [
    {
        "key": i,
        "big": None if i % 7 == 3 else 2**53 - 1 - i,
        "score": None if i % 5 == 2 else i / 4,
        "single": math.nan if i == 4 else i / 8 - 1,
        "flag": None if i == 1 else i % 3 == 0,
        "text": None if i == 6 else "żółw " * (i % 3) + str(i % 4),
        "blob": bytes([i, 0, 255]),
        "ids": None if i == 5 else list(range(i % 4)),
        "nested": [[float(j)] * (j % 3) for j in range(i % 3)],
        "record": None if i == 2 else {"a": i, "b": None if i == 3 else f"b{i}"},
        "records": [{"id": f"punctuation:{j}", "n": j} for j in range(i % 3)],
        "when": datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(days=i),
    }
    for i in range(23)
]
SCHEMA = pa.schema(
    [
        pa.field("key", pa.int32(), nullable=False),
        ("big", pa.int64()),
        ("score", pa.float64()),
        ("single", pa.float32()),
        ("flag", pa.bool_()),
        ("text", pa.string()),
        ("blob", pa.binary()),
        ("ids", pa.list_(pa.int32())),
        ("nested", pa.list_(pa.list_(pa.float64()))),
        ("record", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ("records", pa.list_(pa.struct([("id", pa.string()), ("n", pa.int32())]))),
        ("when", pa.timestamp("ms", tz="UTC")),
    ]
)
FILES = {
    "snappy": dict(compression="snappy"),
    "plain": dict(compression="none", use_dictionary=False),
    "gzip": dict(compression="gzip"),
    "zstd": dict(compression="zstd", data_page_version="2.0"),
    "brotli": dict(compression="brotli"),
    "lz4": dict(compression="lz4"),
    "groups": dict(compression="snappy", row_group_size=5, data_page_size=64),
    "checked": dict(compression="snappy", write_page_checksum=True),
    "delta": dict(
        compression="none",
        use_dictionary=False,
        data_page_version="2.0",
        column_encoding={"key": "DELTA_BINARY_PACKED", "big": "DELTA_BINARY_PACKED", "score": "BYTE_STREAM_SPLIT", "text": "DELTA_BYTE_ARRAY", "blob": "DELTA_LENGTH_BYTE_ARRAY"},
    ),
}


def plain(value):
    if isinstance(value, bytes):
        return list(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", ".000Z")
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value


def main(folder):
    os.makedirs(folder, exist_ok=True)
    table = pa.Table.from_pylist(ROWS, schema=SCHEMA)
    for name, options in FILES.items():
        pq.write_table(table, os.path.join(folder, f"{name}.parquet"), **options)
    pq.write_table(pa.table({"big": pa.array([1, 2**53, 3], pa.int64())}), os.path.join(folder, "tooBig.parquet"))
    ifeval = {
        "key": 1000,
        "prompt": "Write 300 words, no commas.",
        "instruction_id_list": ["punctuation:no_comma", "length_constraints:number_words"],
        "kwargs": [{"num_words": None, "relation": None}, {"num_words": 300, "relation": "at least"}],
    }
    pq.write_table(pa.Table.from_pylist([ifeval]), os.path.join(folder, "ifeval.parquet"))
    gsm8k = [{"question": f"What is {i} + 1?", "answer": f"It is one more.\n#### {i + 1}"} for i in range(4)]
    pq.write_table(pa.Table.from_pylist(gsm8k), os.path.join(folder, "gsm8k.parquet"))
    expected = {"pyarrow": pa.__version__, "rows": [{k: plain(v) for k, v in row.items()} for row in ROWS]}
    with open(os.path.join(folder, "expected.json"), "w") as file:
        json.dump(expected, file, ensure_ascii=False)
        file.write("\n")


main(sys.argv[1])
