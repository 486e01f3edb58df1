/** Runs that sample during training, with an engine on its own thread. */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { useEngine } from '../kit/engine.js'
import { givenId } from '../kit/rollouts.js'
import { parseJsonLines, useTemporaryFolder } from '../kit/runs.js'
import { useTrainingRuns } from '../kit/trainingRuns.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()
const { start, resume } = useTrainingRuns(path)

describe('runs with maxLag', () => {
  it('learn from weights that are at most so many updates old, and tell it; stopped and resumed they leave no problem out', async () => {
    const first = await start('run', { maxLag: 1, steps: 4 }, 2)
    const rest = await resume('run')
    const steps = [...first, ...rest]
    expect(steps.map(({ step }) => step)).toEqual([1, 2, 3, 4])
    expect(first[0]!.overlap!.maxLag).toBe(0)
    expect(Math.max(...steps.map(({ overlap }) => overlap!.maxLag))).toBe(1)
    for (const { overlap, policyVersion, step, sampling, seconds } of steps) {
      expect(overlap!.meanLag).toBeLessThanOrEqual(overlap!.maxLag)
      expect(overlap).toMatchObject({ stale: 0, failed: 0, filtered: 0 })
      expect(policyVersion).toBeGreaterThanOrEqual(step - 2)
      expect(sampling).toMatchObject({ rounds: 1, groups: 2 })
      expect(seconds.environment).toBeGreaterThanOrEqual(0)
    }
    const trajectories = parseJsonLines(readFileSync(`${path('run')}/trajectories.jsonl`, 'utf8'))
    const rows = new Set(trajectories.map(({ groupId }) => Number.parseInt(givenId(String(groupId)), 10)))
    expect([...rows].sort((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
  }, 300_000)

  it('weigh stale tokens of an adapter, and sample groups without a signal again, where the settings say so', async () => {
    const steps = await start('correct', { maxLag: 1, stale: 'correct', steps: 3, loraRank: 2, dynamicSampling: 3 })
    for (const { sampling, overlap } of steps) expect(sampling!.groups).toBe(2 + overlap!.filtered)
    for (const { correction, overlap } of steps) expect(correction === null).toBe(overlap!.maxLag === 0)
  }, 300_000)
})
