/**
 * Exchanges Parquet and JSON Lines files with Python: `npm run verify -- parquet`, where the
 * environment variable PEERS_VENV names a virtual environment with pyarrow and pandas. Files that
 * pyarrow writes now must be read as the golden ones are; Parquet and JSON Lines written here must
 * be read by pyarrow, pandas and json, with the same values. Exits with 1 at the first difference.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { orThrow } from '@tandem-rl/base'
import { fileBytes } from '@tandem-rl/host'
import { encodeParquet, readParquet } from '@tandem-rl/parquet'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { z } from 'zod'
import { encodeTrajectories } from '../../src/data/codecs/trajectories.js'
import { encodeTrajectoriesParquet } from '../../src/data/codecs/trajectoriesParquet.js'
import { collectedBatch } from '../../test/kit/trajectories.js'

const venv = process.env.PEERS_VENV
if (venv === undefined) {
  console.error('PEERS_VENV is not set: it names a Python environment with pyarrow and pandas')
  process.exit(2)
}
const python = (...args: readonly string[]): string =>
  execFileSync(join(venv, 'bin/python'), args, { encoding: 'utf8' })
const folder = mkdtempSync(join(tmpdir(), 'tandem-parquet-'))

const READER = `
import json, math, sys
import pandas, pyarrow.parquet as pq
folder = sys.argv[1]

types = pq.read_table(folder + '/types.parquet').to_pylist()
assert types == [
    {'flag': i % 2 == 0, 'small': i - 3, 'large': 2**53 - 1 - i, 'single': i / 8, 'double': i / 10, 'text': 'żółw' * i,
     'list': [None if j == 1 else j for j in range(i)], 'lists': [['a'] * j for j in range(i % 3)],
     'record': None if i == 2 else {'a': i, 'b': str(i)}, 'bytes': bytes([i, 255])}
    for i in range(7)], types
frame = pandas.read_parquet(folder + '/trajectories.parquet')
lines = [json.loads(line) for line in open(folder + '/trajectories.jsonl', encoding='utf8')]
header, elements = lines[0]['_schema'], lines[1:]
assert header['batchShape'] == [len(frame)] == [len(elements)]
for (_, row), element in zip(frame.iterrows(), elements):
    assert list(row['tokens.full']) == element['tokens']['full']
    assert row['query'] == element['query']
    assert row['next.reward'] == element['next']['reward'] and bool(row['next.done']) == element['next']['done']
    logs = [float(x) for x in element['logProbs']['full']]
    assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(row['logProbs.full'], logs))
    assert json.loads(row['history.prompt']) == element['history']['prompt']
print(len(types), len(frame), pandas.__version__, pq.__name__)
`

/** Files of pyarrow, read here. */
const readTheirs = async (): Promise<number> => {
  python('test/golden/generate/parquet.py', join(folder, 'theirs'))
  const names = readdirSync('packages/parquet/test/golden').filter(
    (name) => name.endsWith('.parquet') && name !== 'tooBig.parquet',
  )
  for (const name of names) {
    const [fresh, golden] = await Promise.all(
      [join(folder, 'theirs', name), join('packages/parquet/test/golden', name)].map(async (path) =>
        orThrow(await readParquet(orThrow(await fileBytes(path)()), { schema: z.unknown() })()),
      ),
    )
    if (!isDeepStrictEqual(fresh, golden))
      throw new Error(`${name}: rows that pyarrow writes now are read otherwise than the golden ones`)
  }
  return names.length
}

/** Files written here, read there. */
const writeOurs = async (): Promise<string> => {
  const each = (f: (i: number) => unknown): readonly unknown[] => Array.from({ length: 7 }, (_, i) => f(i))
  const types = encodeParquet([
    { name: 'flag', type: 'bool', values: each((i) => i % 2 === 0) },
    { name: 'small', type: 'int32', values: each((i) => i - 3) },
    { name: 'large', type: 'int64', values: each((i) => Number.MAX_SAFE_INTEGER - i) },
    { name: 'single', type: 'float32', values: each((i) => i / 8) },
    { name: 'double', type: 'float64', values: each((i) => i / 10) },
    { name: 'text', type: 'string', values: each((i) => 'żółw'.repeat(i)) },
    {
      name: 'list',
      type: { list: { nullable: 'int32' } },
      values: each((i) => Array.from({ length: i }, (_, j) => (j === 1 ? null : j))),
    },
    {
      name: 'lists',
      type: { list: { list: 'string' } },
      values: each((i) => Array.from({ length: i % 3 }, (_, j) => Array(j).fill('a'))),
    },
    {
      name: 'record',
      type: { nullable: { struct: { a: 'int32', b: 'string' } } },
      values: each((i) => (i === 2 ? null : { a: i, b: String(i) })),
    },
    { name: 'bytes', type: 'bytes', values: each((i) => new Uint8Array([i, 255])) },
  ])
  writeFileSync(join(folder, 'types.parquet'), orThrow(await types()))
  using batch = await collectedBatch([3, 1, 2])
  writeFileSync(join(folder, 'trajectories.parquet'), orThrow(await encodeTrajectoriesParquet(batch.value)()))
  writeFileSync(join(folder, 'trajectories.jsonl'), encodeTrajectories(batch.value))
  writeFileSync(join(folder, 'reader.py'), READER)
  return python(join(folder, 'reader.py'), folder)
}

try {
  await selectBackend()
  const { pyarrow } = JSON.parse(readFileSync('packages/parquet/test/golden/expected.json', 'utf8')) as {
    readonly pyarrow: string
  } // by the generator
  const theirs = await readTheirs()
  const [types, rows, pandas] = (await writeOurs()).trim().split(' ')
  console.log(
    JSON.stringify({
      golden: pyarrow,
      filesOfPyarrow: theirs,
      rowsOfTypes: types,
      trajectories: rows,
      pandas,
      ok: true,
    }),
  )
} finally {
  rmSync(folder, { recursive: true, force: true })
}
