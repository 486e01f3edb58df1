import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { flagsOf, SETUPS } from '../../scripts/kit/learningPage.js'
import type { RunSummary } from '../../src/run/metrics/records.js'
import { tandemOk, useTemporaryFolder } from '../kit/runs.js'

const at = useTemporaryFolder()

/**
 * Those that say how much they are to reach. docs/algorithms.md shows the same runs, with two more
 * seeds.
 */
const RUNS = SETUPS.flatMap(({ algorithms, settings, threshold }) =>
  threshold === null ? [] : algorithms.map((name) => ({ name, settings, threshold })),
)

describe('learning on word problems with the shipped model', () => {
  it.each(RUNS)('$name raises held-out accuracy from below 0.2 to above $threshold', async (run) => {
    const { name, settings, threshold } = run
    const flags = [...flagsOf(settings), '--threads', '1', '--algorithm', name, '--seed', '1', '--json']
    await tandemOk(['train', '--out', at(name), ...flags], { cwd: at('.') })
    const summary = JSON.parse(readFileSync(at(`${name}/summary.json`), 'utf8')) as RunSummary // written by the command
    expect(summary).toMatchObject({ status: 'finished', steps: settings.steps })
    const { before, after } = summary.evaluated[0]!
    expect(before.accuracy).toBeLessThan(0.2)
    expect(after.accuracy).toBeGreaterThan(threshold)
  })
})
