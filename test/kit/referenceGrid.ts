/**
 * Fresh checkpoints of every family, made by the peers' `make_model.py`, each compared with this
 * project.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { compareWithReference, type ReferenceGap } from './reference.js'

/** Names that `make_model.py` knows. */
const FAMILIES = [
  ...['gpt2', 'gpt_neo', 'llama', 'llama3_rope', 'qwen2', 'qwen3'],
  ...['mistral', 'gemma2', 'gemma3', 'phi3', 'olmo2', 'smollm3'],
] as const

const DTYPES = ['float32', 'bfloat16', 'float16'] as const
const SHARDS = [1, 3] as const

/** One checkpoint to make and compare. */
export interface GridPoint {
  readonly family: string
  readonly dtype: (typeof DTYPES)[number]
  readonly shards: number
  readonly seed: number
}

/** Every family in every type and number of files, each with a seed of its own. */
export const gridOf = (seed: number): readonly GridPoint[] =>
  FAMILIES.flatMap((family) => DTYPES.flatMap((dtype) => SHARDS.map((shards) => ({ family, dtype, shards })))).map(
    (point, i) => ({ ...point, seed: seed + i }),
  )

/** Largest differences that are accepted. */
export const LIMITS = { logits: 2e-4, loss: 1e-5, gradNorm: 1e-3, greedyTokensDiffering: 0 } as const

/** Numbers above their limits, and NaN. */
export const overLimit = (gap: ReferenceGap): readonly string[] =>
  (['logits', 'loss', 'gradNorm', 'greedyTokensDiffering'] as const).filter(
    (name) => gap[name] !== null && !(gap[name] <= LIMITS[name]),
  )

export interface GridResult extends GridPoint {
  readonly gap: ReferenceGap
  readonly over: readonly string[]
}

/**
 * Runs the script once for each list of arguments, in one process: importing Transformers takes
 * longer than all the rest.
 */
const RUN_EACH = `import json, runpy, sys
script, calls = sys.argv[1], json.loads(sys.argv[2])
for call in calls:
    sys.argv = [script, *call]
    runpy.run_path(script, run_name="__main__")
`

/** Makes the checkpoints of points in a temporary folder, compares each and deletes them. */
export const comparePoints = async (
  points: readonly GridPoint[],
  peers: { readonly python: string; readonly script: string },
): Promise<readonly GridResult[]> => {
  const folder = await mkdtemp(join(tmpdir(), 'tandem-reference-'))
  const folderOf = (i: number): string => join(folder, String(i))
  try {
    const calls = points.map(({ family, dtype, shards, seed }, i) => [
      ...['--family', family, '--dtype', dtype, '--shards', String(shards), '--seed', String(seed)],
      ...['--out', folderOf(i)],
    ])
    const given = ['-c', RUN_EACH, peers.script, JSON.stringify(calls)]
    await promisify(execFile)(peers.python, given, { maxBuffer: 2 ** 26 })
    const results: GridResult[] = []
    for (const [i, point] of points.entries()) {
      const gap = await compareWithReference(folderOf(i))
      results.push({ ...point, gap, over: overLimit(gap) })
    }
    return results
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
