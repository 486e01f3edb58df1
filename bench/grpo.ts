/**
 * Whole GRPO steps (sample, reward, backward, update) with a random reward: the counterpart of the peers' grpo_trl.py. It runs what the package
 * installs, compiled; sampling and gradients are shared out to workers, `threads` in all.
 */

import { adamW, child, keyFromSeed, liveClock, localLearner, orThrow, uniform } from 'tandem-rl'
import { own, scope, selectBackend } from 'tandem-rl/engine'
import { parameterCount } from 'tandem-rl/models'
import { algorithmLoss } from 'tandem-rl/objectives'
import { completionKeys } from 'tandem-rl/serve'
import { median } from '../src/bench/statistics.js'
import { randomModel, ratedBatch } from './batch.js'
import { benchConfig, randomIds, readOptions, runBench } from './settings.js'

const { settings, mode } = readOptions('Runs whole GRPO steps on random prompts with a random reward.', {
  prompts: 16,
  group: 8,
  prompt: 32,
  newTokens: 64,
  workers: 2,
})
const { prompts: count, group, prompt, newTokens, workers } = settings
const config = benchConfig(settings)
await selectBackend({ threads: Math.max(1, Math.floor(settings.threads / workers)) })

const learner = localLearner({
  model: await randomModel(config),
  loss: algorithmLoss('grpo', { clipLow: null, clipHigh: null, longest: newTokens }),
  optimizer: adamW({ learningRate: 1e-4 }),
  key: keyFromSeed(0),
  compute: { threads: workers },
})
const generator = learner.generator()
let steps = 0
const phases: { readonly generate: number; readonly train: number }[] = []

const run = async (): Promise<number> => {
  const started = performance.now()
  const key = child(keyFromSeed(0), steps)
  const prompts = Array.from({ length: count }, (_, i) => randomIds(steps * count + i, prompt, config.vocabularySize))
  steps++
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

await runBench(
  {
    program: 'grpo',
    settings,
    parameters: parameterCount(config),
    work: { name: 'completion_tokens_per_second', amount: count * group * newTokens },
    peerProgram: 'grpo_trl.py',
    peerArguments: { prompts: count, group, prompt, 'new-tokens': newTokens },
  },
  run,
  mode,
)

const timed = phases.slice(settings.warmup)
console.log(
  JSON.stringify({
    program: 'grpo',
    phases: {
      generate: median(timed.map(({ generate }) => generate)),
      train: median(timed.map(({ train }) => train)),
    },
  }),
)
await learner.close()
