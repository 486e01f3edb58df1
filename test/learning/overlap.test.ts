/**
 * Runs that sample during training, with weights in flight, learn as well as the synchronous run.
 */
import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { flagsOf, SETUPS } from '../../scripts/kit/learningPage.js'
import type { RunSummary, StepRecord } from '../../src/run/metrics/records.js'
import { parseJsonLines, tandemOk, useTemporaryFolder } from '../kit/runs.js'

const at = useTemporaryFolder()
const settings = { ...SETUPS[0]!.settings, steps: 12, evalEvery: 12 }

/**
 * The most held-out accuracy that a run may lose against the one in turns, which reaches more than
 * 0.85.
 */
const MARGIN = 0.1

const accuracyAfter = ({ evaluated }: RunSummary): number => evaluated[0]?.after.accuracy ?? 0

const run = async (name: string, flags: readonly string[]) => {
  const all = [...flagsOf(settings), '--threads', '1', '--algorithm', 'grpo', '--seed', '1', '--json', ...flags]
  await tandemOk(['train', '--out', at(name), ...all], { cwd: at('.') })
  const read = (file: string): string => readFileSync(at(`${name}/${file}`), 'utf8')
  const summary = JSON.parse(read('summary.json')) as RunSummary // written by the command
  const steps = parseJsonLines(read('metrics.jsonl')).filter(({ type }) => type === 'step') as unknown as StepRecord[] // the lines of this type, written by the command
  return { summary, lags: steps.map(({ overlap }) => overlap?.maxLag ?? 0) }
}

describe('learning beside sampling on word problems with the shipped model', () => {
  let inTurns = 0
  beforeAll(async () => {
    inTurns = accuracyAfter((await run('turns', ['--max-lag', '0'])).summary)
  })

  it.each([
    { lag: 1, stale: 'wait' },
    { lag: 2, stale: 'drop' },
    { lag: 4, stale: 'correct' },
  ])(
    'with weights up to $lag updates old ($stale) reaches what the run in turns does, within a margin',
    async ({ lag, stale }) => {
      const beside = await run(`lag ${lag}`, ['--max-lag', String(lag), '--stale', stale])
      expect(Math.max(...beside.lags)).toBe(lag)
      expect(inTurns).toBeGreaterThan(0.85)
      expect(accuracyAfter(beside.summary)).toBeGreaterThan(inTurns - MARGIN)
    },
  )
})
