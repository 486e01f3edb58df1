import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { RunSummary } from '../../src/collectors/run/records.js'
import type { AlgorithmName } from '../../src/objectives/algorithms.js'
import { tandemOk, useTemporaryFolder } from '../kit/runs.js'

const at = useTemporaryFolder()

/** Besides GRPO (grpo.test.ts). */
const NAMES: readonly AlgorithmName[] = ['dapo', 'dr-grpo', 'rloo', 'reinforce++', 'gspo', 'cispo', 'gmpo', 'sapo']

describe('learning on word problems with the shipped model', () => {
  it.each(NAMES)('%s raises held-out accuracy from below 20 % to above 90 % in 6 updates', async (name) => {
    const flags = ['--algorithm', name, '--steps', '6', '--eval-every', '6', '--json']
    await tandemOk(['train', '--out', at(name), ...flags], { cwd: at('.') })
    const summary = JSON.parse(readFileSync(at(`${name}/summary.json`), 'utf8')) as RunSummary // written by the command
    expect(summary).toMatchObject({ status: 'finished', steps: 6, evalProblems: 200 })
    expect(summary.accuracyBefore).toBeLessThan(0.2)
    expect(summary.accuracyAfter).toBeGreaterThan(0.9)
  })
})
