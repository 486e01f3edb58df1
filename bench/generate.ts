/** Batched sampling at fixed lengths: the counterpart of the peers' generate.py. */
import { keyFromSeed } from '../src/core/key.js'
import { own, scope } from '../src/engine/scope.js'
import { selectBackend } from '../src/engine/select.js'
import { liveClock } from '../src/live/clock.js'
import { completionKeys, makeGenerator } from '../src/modules/generation/generator.js'
import { initialParams, parameterCount } from '../src/modules/transformer/params.js'
import { benchConfig, randomIds, readOptions, runBench } from './settings.js'

const { settings, mode } = readOptions('Samples completions of random prompts, each prompt its own.', {
  batch: 64,
  prompt: 32,
  newTokens: 128,
})
const { batch, prompt, newTokens } = settings
const config = benchConfig(settings)
await selectBackend({ threads: settings.threads })

const params = own(scope(() => initialParams(config, keyFromSeed(0))))
const prompts = Array.from({ length: batch }, (_, i) => randomIds(i, prompt, config.vocabularySize))
const generator = makeGenerator(config)
let runs = 0

const run = async (): Promise<number> => {
  const started = performance.now()
  await generator.generate(
    params.value,
    {
      prompts,
      group: 1,
      keys: completionKeys(keyFromSeed(runs++), batch, 1),
      options: { temperature: 1, maxNewTokens: newTokens, minNewTokens: newTokens, stopTokens: config.endTokens },
    },
    liveClock.breathe,
  )
  return (performance.now() - started) / 1000
}

await runBench(
  {
    program: 'generate',
    settings,
    parameters: parameterCount(config),
    work: { name: 'tokens_per_second', amount: batch * newTokens },
    peerProgram: 'generate.py',
    peerArguments: { batch, prompt, 'new-tokens': newTokens },
  },
  run,
  mode,
)
