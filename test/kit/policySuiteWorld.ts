/**
 * The expected output of a policy: our own scorer on the same checkpoint, its tokenizer and its
 * template.
 */
import { orThrow } from '@tandem-rl/base'
import { History, message, renderText } from '@tandem-rl/text'
import { jit } from '@tandem-rl/tfjs-onnxruntime'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { loadPretrained, type ModelText, makeParams } from '../../src/modules/pretrained/pretrained.js'
import type { DecoderConfig } from '../../src/modules/transformer/config.js'
import { forwardSegment, logitsOf } from '../../src/modules/transformer/forward.js'
import type { Params } from '../../src/modules/transformer/params.js'
import { rotaryTables } from '../../src/modules/transformer/rotaryTables.js'
import { causalBias } from '../../src/modules/transformer/score.js'
import { makeScorer } from '../../src/modules/transformer/scorer.js'

/** A checkpoint, and its scores by the slow, reliable computation. Needs a backend. */
export interface PolicyWorld {
  readonly folder: string
  readonly config: DecoderConfig
  /** They live until `close`. */
  readonly params: Params
  readonly text: ModelText
  readonly endToken: number
  /** Ids of a question with the beginning of the answer's turn. */
  readonly render: (question: string) => readonly number[]
  /** The text of ids, without special tokens. */
  readonly decode: (ids: readonly number[]) => string
  /** Scores of the token after these. `[V]` */
  readonly logits: (tokens: readonly number[]) => Float32Array
  /** Log-probabilities of the tokens of a completion. Nats. */
  readonly score: (prompt: readonly number[], completion: readonly number[], temperature: number) => Float32Array
  readonly close: () => void
}

/**
 * Scores after each token of a row; places behind the end of a shorter row say nothing. One pass
 * over all, without any cache. `[T, V]`
 */
const allLogits = (config: DecoderConfig) =>
  jit(({ params, ids }: { readonly params: Params; readonly ids: tf.Tensor3D }) => {
    const length = ids.shape[2]
    const { hidden } = forwardSegment(params, config, {
      ids,
      positions: tf.reshape(tf.range(0, length, 1, 'int32'), [1, 1, length]),
      ownBias: causalBias(length),
      past: [],
      rotary: rotaryTables(config, length),
    })
    return logitsOf(params, config, hidden)
  })

/** Rows are filled up to a multiple of this, so that one compiled graph serves many. */
const FILL = 64

/** Loads the checkpoint of a folder as the judge of policies. */
export const policyWorld = async (folder: string): Promise<PolicyWorld> => {
  const { config, arrays, text } = orThrow(await loadPretrained(folder)())
  const params = own(scope(() => makeParams(arrays)))
  const scorer = makeScorer(config)
  const compiled = allLogits(config)
  const lastLogits = (tokens: readonly number[]): Float32Array => {
    const filled = Array.from({ length: Math.ceil(tokens.length / FILL) * FILL }, (_, i) => tokens[i] ?? 0)
    const logits = scope(() =>
      compiled({ params: params.value, ids: tf.tensor3d(filled, [1, 1, filled.length], 'int32') }).dataSync(),
    )
    const size = config.vocabularySize
    return Float32Array.from(logits.subarray((tokens.length - 1) * size, tokens.length * size))
  }
  const known = new Map<string, Float32Array>()
  return {
    folder,
    config,
    params: params.value,
    text,
    endToken: text.tokenizer.idOf(text.endOfTurn)!,
    render: (question) => {
      const history = History([message('user', question)])
      return [...text.tokenizer.encode(orThrow(renderText(text.template, history, { generationPrompt: 'add' })))]
    },
    decode: (ids) => text.tokenizer.decode(ids, 'skip'),
    logits: (tokens) => {
      const name = tokens.join()
      const logits = known.get(name) ?? lastLogits(tokens)
      known.set(name, logits)
      return logits
    },
    score: (prompt, completion, temperature) =>
      scorer.score(params.value, { prompts: [prompt], completions: [completion], temperature })[0]!,
    close: () => {
      compiled.release()
      scorer.release()
      params.release()
    },
  }
}
