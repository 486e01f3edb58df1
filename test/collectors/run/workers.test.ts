/** Runs whose sampling and gradients are shared out to threads. */
import { describe, expect, it } from 'vitest'
import { expectClose } from '../../kit/close.js'
import { useEngine } from '../../kit/engine.js'
import { useTemporaryFolder } from '../../kit/runs.js'
import { useTrainingRuns } from '../../kit/trainingRuns.js'

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
})
