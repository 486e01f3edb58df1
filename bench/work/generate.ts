/** The work of sampling a batch at fixed lengths. */
import { keyFromSeed } from '@tandem-rl/base'
import { liveClock } from '@tandem-rl/base/host'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { completionKeys, makeGenerator } from '../../src/modules/generation/generator.js'
import type { DecoderConfig } from '../../src/modules/transformer/config.js'
import { initialParams } from '../../src/modules/transformer/params.js'
import { randomIds, type TimedRun } from '../shared/settings.js'

export interface GenerateSizes {
  readonly batch: number
  /** Tokens of a prompt; every row has its own. */
  readonly prompt: number
  readonly newTokens: number
}

/** Makes a run on the active backend. */
export const generateWork = (config: DecoderConfig, { batch, prompt, newTokens }: GenerateSizes): TimedRun => {
  const params = own(scope(() => initialParams(config, keyFromSeed(0))))
  const prompts = Array.from({ length: batch }, (_, i) => randomIds(i, prompt, config.vocabularySize))
  const generator = makeGenerator(config)
  let runs = 0
  return async () => {
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
}
