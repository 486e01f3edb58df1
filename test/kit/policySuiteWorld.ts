/** What a policy must have said: our own scorer on the same checkpoint, its tokenizer and its template. */
import * as tf from '@tensorflow/tfjs'
import { orThrow } from '../../src/core/failure.js'
import { renderText } from '../../src/data/chatTemplate.js'
import { History, message } from '../../src/data/history.js'
import { own, scope } from '../../src/engine/scope.js'
import { loadPretrained, type ModelText, makeParams } from '../../src/modules/pretrained.js'
import type { DecoderConfig } from '../../src/modules/transformer/config.js'
import { forwardSegment, logitsOf } from '../../src/modules/transformer/forward.js'
import { groupPrompts } from '../../src/modules/transformer/pack.js'
import type { Params } from '../../src/modules/transformer/params.js'
import { rotaryTables } from '../../src/modules/transformer/rotaryTables.js'
import { beforeBias } from '../../src/modules/transformer/score.js'
import { makeScorer } from '../../src/modules/transformer/scorer.js'

/** A checkpoint, and what it says by the slow and certain way. Needs a backend. */
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

/** Scores after the last token: one pass over all, without any cache. */
const lastLogits = (params: Params, config: DecoderConfig, tokens: readonly number[]): Float32Array =>
  scope(() => {
    const length = tokens.length
    const { hidden } = forwardSegment(params, config, {
      ids: tf.tensor3d([...tokens], [1, 1, length], 'int32'),
      positions: tf.reshape(tf.range(0, length, 1, 'int32'), [1, 1, length]),
      beforeBias: beforeBias(length),
      past: [],
      rotary: rotaryTables(config, length),
    })
    const last = logitsOf(params, config, tf.slice(hidden, [length - 1, 0], [1, -1]))
    return Float32Array.from(last.dataSync())
  })

/** Loads the checkpoint of a folder as the judge of policies. */
export const policyWorld = async (folder: string): Promise<PolicyWorld> => {
  const { config, arrays, text } = orThrow(await loadPretrained(folder)())
  const params = own(scope(() => makeParams(arrays)))
  const scorer = makeScorer(config)
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
      const logits = known.get(name) ?? lastLogits(params.value, config, tokens)
      known.set(name, logits)
      return logits
    },
    score: (prompt, completion, temperature) =>
      scorer.score(params.value, { groups: groupPrompts([prompt]), completions: [completion], temperature })[0]!,
    close: () => {
      scorer.release()
      params.release()
    },
  }
}
