"""Writes packages/parquet/test/golden/duckdb.parquet with DuckDB, and duckdb.json with its rows as pyarrow reads them.

DuckDB pads the last bit-packed run of levels and of dictionary indices to 256 values.

python test/golden/generate/parquetDuckdb.py packages/parquet/test/golden
"""
import json
import os
import sys

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

QUERY = """
select i as key,
       case when i % 3 = 0 then null else 'kind ' || (i % 4) end as kind,
       case when i % 5 = 1 then null else i / 4 end as score,
       case when i % 7 = 2 then null else [j for j in range(i % 4)] end as ids,
       i % 2 = 0 as flag
from range(300) r(i)
"""


def main(folder):
    path = os.path.join(folder, "duckdb.parquet")
    duckdb.sql(f"copy ({QUERY}) to '{path}' (format parquet, compression snappy)")
    table = pq.read_table(path)
    with open(os.path.join(folder, "duckdb.json"), "w") as file:
        json.dump({"duckdb": duckdb.__version__, "pyarrow": pa.__version__, "rows": table.to_pylist()}, file)


main(sys.argv[1])
