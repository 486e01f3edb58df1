/**
 * Runs with several updates for each batch: what the later ones see, and that they resume bit for
 * bit.
 */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { combineUpdates, type StepMetrics } from '../../src/objectives/policyMetrics.js'
import type { TrajectoryRecord } from '../../src/run/metrics/records.js'
import { useEngine } from '../kit/engine.js'
import { parseJsonLines, useTemporaryFolder } from '../kit/runs.js'
import { useTrainingRuns } from '../kit/trainingRuns.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()
const runs = useTrainingRuns(path)

const SETTINGS = { steps: 2, prompts: 4, group: 2, epochs: 2, miniBatches: 2, evalTasks: 1, learningRate: 0.05 }

describe('a run with epochs and mini-batches', () => {
  it('takes so many optimizer steps for each batch, and resumes to the same end, bit for bit', async () => {
    const [first, second] = await runs.expectResumed('passes', SETTINGS)
    for (const record of [first!, second!]) {
      const { updates } = record
      expect(updates).toHaveLength(4)
      expect(record.update).toMatchObject(combineUpdates(updates as readonly StepMetrics[])) // those of a policy loss
      const tokens = updates.map((update) => update.tokens!)
      expect(tokens[0]! + tokens[1]!).toBe(tokens[2]! + tokens[3]!) // each pass has all of them
      expect(record.update.tokens).toBe(tokens.reduce((a, b) => a + b, 0))
      expect(record.update.computedPlaces).toBeGreaterThanOrEqual(record.update.tokens!)
    }
    expect([first!.policyVersion, second!.policyVersion]).toEqual([0, 1]) // a version is a step, not an update
  })

  it('is on the policy in the first update of a step, and off it afterwards', async () => {
    const [record] = await runs.start('off', { ...SETTINGS, steps: 1 })
    const { update: whole, updates } = record!
    const [first, ...later] = updates
    expect(first).toMatchObject({ clipFraction: 0, pgClipFraction: 0 })
    expect(Math.abs(first!.klApprox!)).toBeLessThan(1e-5)
    expect(whole.maxLogProbGap).toBeLessThan(1e-5)
    for (const update of later) {
      expect(Math.abs(update.klApprox!)).toBeGreaterThan(1e-4)
      expect(update.ess).toBeLessThan(0.9999)
    }
    expect(Math.max(...later.map((update) => update.clipFraction!))).toBeGreaterThan(0)
    expect(Math.max(...later.map((update) => (update as StepMetrics).pgClipFraction))).toBeGreaterThan(0)
  })

  it('records the numbers of trained tokens with its rollouts', async () => {
    const [record] = await runs.start('recorded', { ...SETTINGS, steps: 1, trajectories: 8 })
    const rollouts = parseJsonLines(
      readFileSync(path('recorded/trajectories.jsonl'), 'utf8'),
    ) as unknown as readonly TrajectoryRecord[] // written by the run
    const trained = rollouts.filter(({ entropies }) => entropies !== undefined)
    const [first, second] = record!.updates as readonly StepMetrics[] // those of a policy loss
    const entropies = trained.flatMap((rollout) => rollout.entropies!)
    expect(entropies).toHaveLength(first!.tokens + second!.tokens)
    const mean = (first!.entropy * first!.tokens + second!.entropy * second!.tokens) / entropies.length
    expect(entropies.reduce((a, b) => a + b) / entropies.length).toBeCloseTo(mean, 3)
    // The second mini-batch is measured after the first one's optimizer step.
    expect(new Set(trained.map(({ trainerLogProbs }) => trainerLogProbs === 'equal'))).toEqual(new Set([true, false]))
    expect(trained.some(({ ratios }) => ratios!.some((ratio) => Math.abs(ratio - 1) > 0.01))).toBe(true)
    expect(trained.some(({ clipped }) => clipped !== undefined)).toBe(true)
    expect(rollouts.map(({ format }) => format)).toEqual(rollouts.map(() => 2))
  })

  it('takes ratios against its own log-probs, which are those of the sampler where the engine is the same', async () => {
    const [sampled] = await runs.start('sampled', { ...SETTINGS, steps: 1 })
    const [rescored] = await runs.start('rescored', { ...SETTINGS, steps: 1, oldLogProbs: 'rescored' })
    expect(rescored!.update.maxLogProbGap).toBeLessThan(1e-5)
    for (const [i, update] of rescored!.updates.entries()) {
      expect(update.klApprox).toBeCloseTo(sampled!.updates[i]!.klApprox!, 4)
      expect(update.loss).toBeCloseTo(sampled!.updates[i]!.loss, 3)
    }
  })

  it('gives objectives that choose at random their numbers in every pass', async () => {
    const steps = await runs.start('noise', { ...SETTINGS, algorithm: 'clip-cov' })
    for (const { updates } of steps) expect(updates).toHaveLength(4)
  })
})
