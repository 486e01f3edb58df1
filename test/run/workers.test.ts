/** Runs that sample and compute gradients on several threads. */
import { FailureError, keyFromSeed, orThrow } from '@tandem-rl/base'
import { describe, expect, it } from 'vitest'
import { wordProblems } from '../../src/data/datasets/wordProblems/wordProblems.js'
import { GSM8KEnv } from '../../src/envs/gsm8kEnv.js'
import { loadPretrained } from '../../src/modules/pretrained/pretrained.js'
import { defineRun } from '../../src/run/define/defineRun.js'
import { grpoParts } from '../../src/run/define/grpoParts.js'
import { expectClose } from '../kit/close.js'
import { useEngine } from '../kit/engine.js'
import { smallSettings, useTemporaryFolder } from '../kit/runs.js'
import { useTrainingRuns } from '../kit/trainingRuns.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()
const runs = useTrainingRuns(path)

const SETTINGS = { steps: 2, prompts: 4, group: 2, evalTasks: 1, learningRate: 0.05 }

describe('a run with workers', () => {
  it('samples and learns as one without, but for rounding, and resumes to the same end, bit for bit', async () => {
    const alone = await runs.start('alone', SETTINGS)
    const shared = await runs.expectResumed('shared', { ...SETTINGS, workers: 2 })
    for (const [i, { reward, update }] of shared.entries()) {
      const { reward: oneReward, update: one } = alone[i]!
      const { tokens, loss, gradNorm, entropy } = update
      expect([reward, tokens]).toEqual([oneReward, one.tokens])
      expectClose([loss, gradNorm, entropy!], [one.loss, one.gradNorm, one.entropy!], {
        absolute: 1e-4,
        relative: 1e-3,
      })
    }
  })

  it('that cannot start the thread that samples ends its workers, and frees what it held', async () => {
    const settings = smallSettings(path('model'), { ...SETTINGS, workers: 2, maxLag: 1 })
    const ports = (): number => process.getActiveResourcesInfo().filter((name) => name === 'MessagePort').length
    const before = ports()
    const model = orThrow(await loadPretrained(settings.model)())
    const problems = wordProblems(keyFromSeed(1), { split: 'rl' })
    const moved = { ...settings, model: path('moved away') }
    const run = defineRun(grpoParts(moved, { model, env: (tasks) => GSM8KEnv({ source: problems, ...tasks }) }))
    await expect(run).rejects.toThrow(FailureError)
    expect(ports()).toBe(before)
  })
})
