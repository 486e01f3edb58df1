/**
 * Compares the decoder with Hugging Face Transformers on fresh checkpoints.
 *
 * `npm run verify -- reference FOLDER ...`: folders made by the peers' make_model.py or by the
 * golden generator.
 * `npm run verify -- reference --all [--seed N] [--only TEXT]`: makes every family in every type
 * of number and in 1 and 3 files itself, with the Python of PEERS_VENV and the make_model.py of
 * PEERS (by default ../shared/peers). Exits with 1 if a difference is above its limit.
 */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { compareWithReference } from '../../test/kit/reference.js'
import { comparePoints, type GridResult, gridOf, LIMITS, overLimit } from '../../test/kit/referenceGrid.js'

const USAGE = 'usage: npm run verify -- reference FOLDER ... | --all [--seed N] [--only TEXT]'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { all: { type: 'boolean' }, seed: { type: 'string' }, only: { type: 'string' } },
})

const checkFolders = async (folders: readonly string[], backend: string): Promise<void> => {
  for (const folder of folders) {
    const gap = await compareWithReference(folder)
    const over = overLimit(gap)
    console.log(JSON.stringify({ folder, backend, ...gap, ok: over.length === 0 }))
    if (over.length > 0) process.exitCode = 1
  }
}

const exponent = (x: number): string => x.toExponential(1).padStart(9)

const printResult = ({ family, dtype, shards, seed, gap, over }: GridResult): void => {
  const verdict = over.length === 0 ? 'ok' : `OVER: ${over.join(', ')} (${gap.worstGradient})`
  console.log(`${family} ${dtype} ${shards} file(s), seed ${seed}: logits ${exponent(gap.logits)}, ${verdict}`)
}

/** One line for each family: the worst of its checkpoints. */
const printTable = (results: readonly GridResult[]): void => {
  const families = [...new Set(results.map(({ family }) => family))]
  console.log(`\n${'family'.padEnd(12)}checkpoints     logits      loss  gradNorm  greedy tokens differing`)
  for (const family of families) {
    const own = results.filter((result) => result.family === family)
    const worst = (f: (result: GridResult) => number): number => Math.max(...own.map(f))
    const cells = [worst((r) => r.gap.logits), worst((r) => r.gap.loss), worst((r) => r.gap.gradNorm)].map(exponent)
    const tokens = own.reduce((sum, { gap }) => sum + (gap.greedyTokensDiffering ?? 0), 0)
    console.log(`${family.padEnd(12)}${String(own.length).padStart(11)}  ${cells.join(' ')}  ${tokens}`)
  }
  console.log(`limits: ${JSON.stringify(LIMITS)}`)
}

const checkAll = async (): Promise<void> => {
  const venv = process.env.PEERS_VENV
  if (venv === undefined)
    throw new Error('set PEERS_VENV to a folder of a Python environment with torch and transformers')
  const peers = {
    python: join(venv, 'bin/python'),
    script: join(process.env.PEERS ?? '../shared/peers', 'make_model.py'),
  }
  const seed = Number(values.seed ?? Date.now() % 1_000_000)
  const points = gridOf(seed).filter(({ family, dtype }) => `${family} ${dtype}`.includes(values.only ?? ''))
  console.log(`seed ${seed}, ${points.length} checkpoints`)
  const results: GridResult[] = []
  for (const family of new Set(points.map((point) => point.family))) {
    const own = points.filter((point) => point.family === family)
    results.push(...(await comparePoints(own, peers)))
    for (const result of results.slice(-own.length)) printResult(result)
    console.log(`${results.length} of ${points.length}`)
  }
  printTable(results)
  const failed = results.filter(({ over }) => over.length > 0)
  console.log(failed.length === 0 ? 'all within limits' : `${failed.length} above a limit`)
  if (failed.length > 0) process.exitCode = 1
}

if (values.all !== true && positionals.length === 0) {
  console.error(USAGE)
  process.exit(2)
}
const { backend } = await selectBackend()
await (values.all === true ? checkAll() : checkFolders(positionals, backend))
