/**
 * Times reading a large safetensors file from a warm page cache, as a multiple of reading the same
 * bytes as a plain file: whole, lazily, and by the reference implementation where PEERS_VENV is
 * set. All in one run, in turn, medians.
 */
import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { median, orThrow } from '@tandem-rl/base'
import { Command } from 'commander'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { decodeSafetensors, safetensorsParts } from '../src/data/codecs/safetensors.js'
import { openSafetensors, readSafetensors } from '../src/data/codecs/safetensorsFile.js'

const { megabytes, tensors, runs } = new Command()
  .description('Reads a safetensors file whole and lazily, against a plain read of the same bytes.')
  .option('--megabytes <n>', 'size of the file', Number, 1000)
  .option('--tensors <n>', 'how many tensors it has', Number, 100)
  .option('--runs <n>', 'timed runs of each', Number, 5)
  .parse()
  .opts<{ readonly megabytes: number; readonly tensors: number; readonly runs: number }>()

const folder = mkdtempSync(join(process.env.BENCH_TMPDIR ?? tmpdir(), 'tandem-bench-'))
const path = join(folder, 'model.safetensors')

/** A file whose tensors all have the same numbers, so that making it takes the memory of one. */
const makeFile = (): void => {
  const data = Float32Array.from({ length: Math.floor((megabytes * 1e6) / 4 / tensors) }, (_, i) => i)
  const arrays = new Map(
    Array.from({ length: tensors }, (_, i) => [`layer.${i}.weight`, { shape: [data.length], data }]),
  )
  const file = openSync(path, 'w')
  for (const part of safetensorsParts(arrays)) writeSync(file, part)
  closeSync(file)
}

/** A byte of every page is looked at, so that a reader which maps the file has to fetch them all, as the others do. */
const TOUCHED_BYTES = 4096

const touch = (bytes: Uint8Array): number => {
  let sum = 0
  for (let i = 0; i < bytes.length; i += TOUCHED_BYTES) sum += bytes[i]!
  return sum
}

const lazily = pipe(
  openSafetensors(path),
  TE.chainW((file) =>
    pipe(
      [...file.entries.keys()],
      TE.traverseSeqArray((name) =>
        pipe(
          file.read(name),
          TE.map(({ data }) => touch(new Uint8Array(data.buffer))), // one tensor in memory at a time
        ),
      ),
      TE.chainW(() => file.close),
    ),
  ),
)

const READERS: Readonly<Record<string, () => Promise<unknown>>> = {
  'plain file': async () => touch(await readFile(path)),
  readSafetensors: async () =>
    [...orThrow(await readSafetensors(path)()).arrays.values()].map(({ data }) => touch(new Uint8Array(data.buffer))),
  'openSafetensors, one tensor at a time': async () => orThrow(await lazily()),
  'plain file and decodeSafetensors, shared memory': async () => {
    const bytes = await readFile(path)
    orThrow(decodeSafetensors(bytes, { memory: 'share' }))
    return touch(bytes)
  },
}

const PEER = `
import sys, time
from safetensors.torch import load_file
for _ in range(int(sys.argv[2]) + 1):
    start = time.perf_counter()
    for tensor in load_file(sys.argv[1]).values(): tensor.view(-1)[::1024].sum().item()
    print(time.perf_counter() - start)
`

const timed = async (read: () => Promise<unknown>): Promise<number> => {
  const start = performance.now()
  await read()
  return (performance.now() - start) / 1000
}

try {
  makeFile()
  const seconds = new Map<string, number[]>(Object.keys(READERS).map((name) => [name, []]))
  for (let run = 0; run <= runs; run++) {
    for (const [name, read] of Object.entries(READERS)) {
      const time = await timed(read)
      if (run > 0) seconds.get(name)!.push(time) // the first one warms the page cache
    }
  }
  const venv = process.env.PEERS_VENV
  if (venv !== undefined) {
    const output = execFileSync(join(venv, 'bin/python'), ['-c', PEER, path, String(runs)], { encoding: 'utf8' })
    seconds.set('safetensors.torch.load_file', output.trim().split('\n').slice(1).map(Number))
  }
  const plain = median(seconds.get('plain file')!)
  for (const [name, times] of seconds) {
    const ratios = { median: median(times), min: Math.min(...times), max: Math.max(...times) }
    console.log(JSON.stringify({ name, megabytes, tensors, runs, seconds: ratios, ofPlainFile: median(times) / plain }))
  }
  console.log(JSON.stringify({ cpu: cpus()[0]?.model, node: process.version }))
} finally {
  rmSync(folder, { recursive: true, force: true })
}
