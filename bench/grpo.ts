/**
 * Whole GRPO steps (sample, reward, backward, update) with a random reward: the counterpart of the peers' grpo_trl.py. It runs what the package
 * installs, compiled; sampling and gradients are shared out to workers, `threads` in all.
 */
import {
  adamW,
  child,
  completionKeys,
  groupAdvantage,
  initialParams,
  inThisThread,
  keyFromSeed,
  liveClock,
  makeGenerator,
  namedPolicyCase,
  orThrow,
  own,
  parallelGenerator,
  parallelStep,
  parameterCount,
  policyStepCase,
  scope,
  selectBackend,
  startReplicas,
  trainStep,
  uniform,
} from 'tandem-rl'
import { benchConfig, median, randomIds, readOptions, runBench } from './settings.js'

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

const named = { config, algorithm: 'grpo', options: { clipLow: null, clipHigh: null, longest: newTokens } } as const
const replicas = orThrow(await startReplicas({ config, stepCase: policyStepCase(named), workers })())
const generator = workers === 1 ? makeGenerator(config) : parallelGenerator(makeGenerator(config), replicas)
const stepCase = namedPolicyCase(named)
const trainer =
  workers === 1
    ? inThisThread(trainStep({ config, optimizer: adamW() }))
    : parallelStep(stepCase, { config, optimizer: adamW() }, replicas)
let state = own(scope(() => trainer.init(initialParams(config, keyFromSeed(0)))))
let steps = 0
const phases: { readonly generate: number; readonly train: number }[] = []

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
  const sampled = performance.now()
  const rewards = completions.map((_, i) => uniform(child(key, 'reward'), i))
  const update = orThrow(
    await trainer.update(
      state.value,
      {
        prompts: completions.map((_, i) => prompts[Math.floor(i / group)]!),
        completions: completions.map((completion) => completion.ids),
        oldLogProbs: completions.map((completion) => completion.logProbs),
        advantages: prompts.flatMap((_, i) => orThrow(groupAdvantage(rewards.slice(i * group, (i + 1) * group)))),
        temperature: 1,
      },
      1e-4,
    )(),
  )
  state.release()
  state = update.state
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
await replicas.close()
