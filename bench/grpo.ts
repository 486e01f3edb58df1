/** Whole GRPO steps (sample, reward, backward, update) with a random reward: the counterpart of the peers' grpo_trl.py. */

import { trainStep } from '../src/collectors/trainStep.js'
import { child, keyFromSeed, uniform } from '../src/core/key.js'
import { own, scope } from '../src/engine/scope.js'
import { selectBackend } from '../src/engine/select.js'
import { liveClock } from '../src/live/clock.js'
import { completionKeys, makeGenerator } from '../src/modules/transformer/generate.js'
import { initialParams, parameterCount } from '../src/modules/transformer/params.js'
import { groupAdvantage } from '../src/objectives/advantages/groupAdvantage.js'
import { adamW } from '../src/objectives/updates/adamW.js'
import { benchConfig, randomIds, readOptions, runBench } from './settings.js'

const { settings, mode } = readOptions('Runs whole GRPO steps on random prompts with a random reward.', {
  prompts: 16,
  group: 8,
  prompt: 32,
  newTokens: 64,
})
const { prompts: count, group, prompt, newTokens } = settings
const config = benchConfig(settings)
await selectBackend({ threads: settings.threads })

const generator = makeGenerator(config)
const trainer = trainStep({ config, optimizer: adamW() })
let state = own(scope(() => trainer.init(initialParams(config, keyFromSeed(0)))))
let steps = 0

const advantagesOf = (rewards: readonly number[]): readonly number[] => {
  const result = groupAdvantage(rewards)
  if (result._tag === 'Left') throw new Error(`advantage: ${result.left.reason}`)
  return result.right
}

const run = async (): Promise<number> => {
  const started = performance.now()
  const key = child(keyFromSeed(0), steps)
  const prompts = Array.from({ length: count }, (_, i) => randomIds(steps * count + i, prompt, config.vocabularySize))
  steps++
  const completions = await generator.generate(
    state.value.params,
    {
      prompts,
      group,
      keys: completionKeys(key, count, group),
      options: { temperature: 1, maxNewTokens: newTokens, minNewTokens: newTokens, stopTokens: config.endTokens },
    },
    liveClock.breathe,
  )
  const rewards = completions.map((_, i) => uniform(child(key, 'reward'), i))
  const update = trainer.update(
    state.value,
    {
      prompts: completions.map((_, i) => prompts[Math.floor(i / group)]!),
      completions: completions.map((completion) => completion.ids),
      oldLogProbs: completions.map((completion) => completion.logProbs),
      advantages: prompts.flatMap((_, i) => advantagesOf(rewards.slice(i * group, (i + 1) * group))),
      temperature: 1,
    },
    1e-4,
  )
  state.release()
  state = update.state
  return (performance.now() - started) / 1000
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
