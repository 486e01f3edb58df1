/** Runs whose sampling and gradients are shared out to threads. */
import { describe, expect, it } from 'vitest'
import { FailureError } from '../../src/core/failure.js'
import { openLearner } from '../../src/run/learner.js'
import { prepareRun } from '../../src/run/prepare.js'
import { expectClose } from '../kit/close.js'
import { useEngine } from '../kit/engine.js'
import { rightOf } from '../kit/results.js'
import { smallSettings, useTemporaryFolder } from '../kit/runs.js'
import { useTrainingRuns } from '../kit/trainingRuns.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()
const runs = useTrainingRuns(path)

const SETTINGS = { steps: 2, prompts: 4, group: 2, evalProblems: 1, learningRate: 0.05 }

describe('a run with workers', () => {
  it('samples and learns as one without, but for rounding, and resumes to the same end, bit for bit', async () => {
    const alone = await runs.start('alone', SETTINGS)
    const shared = await runs.expectResumed('shared', { ...SETTINGS, workers: 2 })
    for (const [i, { reward, tokens, loss, gradNorm, entropy }] of shared.entries()) {
      const one = alone[i]!
      expect([reward, tokens]).toEqual([one.reward, one.tokens])
      expectClose([loss, gradNorm, entropy], [one.loss, one.gradNorm, one.entropy], { absolute: 1e-4, relative: 1e-3 })
    }
  })

  it('that cannot start the thread that samples ends its workers, and frees what it held', async () => {
    const settings = smallSettings(path('model'), { ...SETTINGS, workers: 2, maxLag: 1 })
    const run = await rightOf(prepareRun({ _tag: 'New', folder: path('unwired'), settings }))
    const ports = (): number => process.getActiveResourcesInfo().filter((name) => name === 'MessagePort').length
    const before = ports()
    const moved = { ...run, settings: { ...run.settings, model: path('moved away') } }
    await expect(openLearner(moved)).rejects.toThrow(FailureError)
    expect(ports()).toBe(before)
  })
})
