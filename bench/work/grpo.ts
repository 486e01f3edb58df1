/** The work of a GRPO step with a random reward: sample, reward, backward, update. */
import { own, scope } from '@tandem-rl/tfjs-onnxruntime'
import { adamW, child, keyFromSeed, liveClock, localLearner, orThrow, uniform } from 'tandem-rl'
import { completionKeys } from 'tandem-rl/generation'
import type { DecoderConfig } from 'tandem-rl/models'
import { algorithmLoss } from 'tandem-rl/objectives'
import { randomModel, ratedBatch } from '../shared/batch.js'
import { randomIds, type TimedRun } from '../shared/settings.js'

export interface GrpoSizes {
  readonly prompts: number
  /** Completions of each prompt. */
  readonly group: number
  /** Tokens of a prompt. */
  readonly prompt: number
  readonly newTokens: number
  /** With 1, everything is computed in this thread. */
  readonly workers: number
}

/** Seconds of the two parts of a step. */
interface Phases {
  readonly generate: number
  readonly train: number
}

export interface GrpoWork {
  readonly run: TimedRun
  /** Of every step so far. */
  readonly phases: readonly Phases[]
  readonly close: () => Promise<void>
}

/** Makes a learner on the active backend, and its steps. */
export const grpoWork = async (config: DecoderConfig, sizes: GrpoSizes): Promise<GrpoWork> => {
  const { prompts: count, group, prompt, newTokens, workers } = sizes
  const learner = localLearner({
    model: await randomModel(config),
    loss: algorithmLoss('grpo', { clipLow: null, clipHigh: null, longest: newTokens }),
    optimizer: adamW({ learningRate: 1e-4 }),
    key: keyFromSeed(0),
    compute: { threads: workers },
  })
  const generator = learner.generator()
  const phases: Phases[] = []
  const run: TimedRun = async () => {
    const started = performance.now()
    const steps = phases.length
    const key = child(keyFromSeed(0), steps)
    const prompts = Array.from({ length: count }, (_, i) => randomIds(steps * count + i, prompt, config.vocabularySize))
    const completions = await generator.generate(
      learner.weights(),
      {
        prompts,
        group,
        keys: completionKeys(key, count, group),
        options: { temperature: 1, maxNewTokens: newTokens, minNewTokens: newTokens, stopTokens: config.endTokens },
      },
      liveClock.breathe,
    )
    const sampled = performance.now()
    const rewards = completions.map((_, i) => uniform(child(key, 'reward'), i))
    using batch = own(
      scope(() =>
        ratedBatch({
          prompts: completions.map((_, i) => prompts[Math.floor(i / group)]!),
          completions: completions.map(({ ids }) => ids),
          logProbs: completions.map(({ logProbs }) => logProbs),
          ...{ rewards, group },
        }),
      ),
    )
    orThrow(await learner.update(batch.value)())
    const ended = performance.now()
    phases.push({ generate: (sampled - started) / 1000, train: (ended - sampled) / 1000 })
    return (ended - started) / 1000
  }
  return { run, phases, close: () => learner.close() }
}
