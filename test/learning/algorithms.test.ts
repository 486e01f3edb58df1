import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { RunSummary } from '../../src/collectors/run/records.js'
import type { AlgorithmName } from '../../src/objectives/algorithms.js'
import { tandemOk, useTemporaryFolder } from '../kit/runs.js'

const at = useTemporaryFolder()

/** Accuracy on 200 held-out problems after 12 updates, from 33 %, must be above the bound; what was seen stands beside it. */
const BOUNDS: readonly (readonly [name: AlgorithmName, bound: number])[] = [
  ['dapo', 0.6],
  ['dr-grpo', 0.6],
  ['rloo', 0.6],
  ['reinforce++', 0.6],
  ['gspo', 0.6],
  ['cispo', 0.6],
  ['gmpo', 0.6],
  ['sapo', 0.6],
]

describe('learning on word problems with the shipped model', () => {
  it.each(BOUNDS)('%s raises held-out accuracy to above %f in 12 updates', async (name, bound) => {
    const flags = ['--algorithm', name, '--steps', '12', '--eval-every', '12', '--json']
    await tandemOk(['train', '--out', at(name), ...flags], { cwd: at('.') })
    const summary = JSON.parse(readFileSync(at(`${name}/summary.json`), 'utf8')) as RunSummary // written by the command
    expect(summary).toMatchObject({ status: 'finished', steps: 12, evalProblems: 200 })
    expect(summary.accuracyBefore).toBeLessThan(0.4)
    expect(summary.accuracyAfter).toBeGreaterThan(bound)
  })
})
