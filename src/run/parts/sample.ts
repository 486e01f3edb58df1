/** Samples completions of one question. */
import type { Key } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { PolicyFailure, StopReason } from '../../data/policy.js'
import { data, raggedRow } from '../../data/tensorDict/leaf.js'
import { get, TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { EnvFailure } from '../../envs/base/env.js'
import { ChatEnv } from '../../envs/chatEnv.js'
import { tokenEnv } from '../../envs/tokenEnv.js'
import type { GenerationOptions } from '../../modules/generation/generator.js'
import { makeParams, type Pretrained } from '../../modules/pretrained/pretrained.js'
import { type TransformersPolicy, TransformersWrapper } from '../../modules/transformersWrapper.js'

export interface SampledText {
  /** The completion's text, without the end-of-turn token. */
  readonly text: string
  /** Log-probability of the whole completion, in nats. */
  readonly logProb: number
  readonly stopReason: StopReason
  readonly tokens: number
}

export interface SampleOptions {
  readonly count: number
  readonly key: Key
  readonly sampling: Omit<GenerationOptions, 'stopTokens'>
}

/** Samples `count` completions of a user's question. `Left` if template or policy rejects it. */
export const sampleCompletions = (
  model: Pretrained,
  question: string,
  options: SampleOptions,
): TE.TaskEither<EnvFailure | PolicyFailure, readonly SampledText[]> => {
  const { count, key, sampling } = options

  const { config, text } = model
  const env = tokenEnv(ChatEnv({ batchSize: count }), text)
  const request = TensorDict({ query: data(Array.from({ length: count }, () => question)) }, [count])
  const sample = (policy: TransformersPolicy) =>
    pipe(
      env.reset(request, key),
      TE.chainW((state) => policy.act(state, key)),
      TE.map((action) =>
        Array.from({ length: count }, (_, i) => {
          const ids = raggedRow(get(action, 'tokens', 'response'), i)
          return {
            text: text.tokenizer.decode(ids, 'skip'),
            logProb: raggedRow(get(action, 'logProbs', 'response'), i).reduce((sum, x) => sum + x, 0),
            stopReason: get(action, 'stopReason').items.get(i)!,
            tokens: ids.length,
          }
        }),
      ),
    )
  return async () => {
    const policy = scope(() => TransformersWrapper({ config, params: makeParams(model.arrays), sampling }))
    try {
      return await sample(policy)()
    } finally {
      policy.release()
    }
  }
}
