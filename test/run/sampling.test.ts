/**
 * Runs that sample groups without a signal again, and that make or take away the reward of long
 * completions.
 */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { overlongOf } from '../../src/run/define/choices.js'
import { useEngine } from '../kit/engine.js'
import { parseJsonLines, smallSettings, useTemporaryFolder } from '../kit/runs.js'
import { useTrainingRuns } from '../kit/trainingRuns.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()
const runs = useTrainingRuns(path)

const SETTINGS = { steps: 2, prompts: 2, group: 2, evalTasks: 1 }

describe('a run with dynamic sampling', () => {
  it('samples again, reports the samples, and resumes to the same end, bit for bit', async () => {
    const steps = await runs.expectResumed('again', { ...SETTINGS, dynamicSampling: 3 })
    for (const { sampling, completionTokens } of steps) {
      expect(sampling!.groups).toBe(2 * sampling!.rounds)
      expect(sampling!.rounds).toBeLessThanOrEqual(3)
      expect(sampling!.tokens).toBeGreaterThanOrEqual(4 * completionTokens!)
    }
    expect(Math.max(...steps.map(({ sampling }) => sampling!.rounds))).toBeGreaterThan(1)
  })

  it('is what DAPO does unless it is told not to, and what others do if they are told to', async () => {
    const [dapo] = await runs.start('dapo', { ...SETTINGS, steps: 1, algorithm: 'dapo' })
    const [once] = await runs.start('once', { ...SETTINGS, steps: 1, algorithm: 'dapo', dynamicSampling: 1 })
    const [grpo] = await runs.start('grpo', { ...SETTINGS, steps: 1 })
    expect(dapo!.sampling!.rounds).toBeGreaterThan(1)
    expect([once!.sampling!.rounds, grpo!.sampling!.rounds]).toEqual([1, 1])
  })
})

describe('a run with a soft end', () => {
  it('rewards long completions less', async () => {
    const [plain] = await runs.start('plain', { ...SETTINGS, steps: 1 })
    const [soft] = await runs.start('soft', { ...SETTINGS, steps: 1, overlongCache: 8, overlongFactor: 2 })
    expect(soft!.completionTokens).toBe(plain!.completionTokens)
    expect(plain!.reward! - soft!.reward!).toBeCloseTo((2 * plain!.completionTokens!) / 8, 5)
  })

  it('refuses a cache that is longer than a completion', () => {
    const settings = smallSettings(path('model'), { maxNewTokens: 8, overlongCache: 9 })
    expect(() => overlongOf(settings)).toThrow('from 1 to 8, got 9')
  })
})

describe('a run that masks completions that were cut off', () => {
  it('learns from the tokens of the others alone', async () => {
    const settings = { ...SETTINGS, steps: 1, prompts: 4, maxNewTokens: 5, trajectories: 8 }
    const [masked] = await runs.start('masked', { ...settings, truncated: 'mask' })
    const shown = parseJsonLines(readFileSync(path('masked/trajectories.jsonl'), 'utf8'))
    const kept = shown.filter(({ stopReason }) => stopReason === 'stop')
    expect(shown).toHaveLength(8)
    expect(kept.length).toBeLessThan(8)
    expect(masked!.update.tokens).toBe(kept.reduce((sum, { tokens }) => sum + (tokens as readonly string[]).length, 0)) // as it was written
  })
})
