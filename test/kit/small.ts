/**
 * Small things that tests of models and collectors share: configs, a text side, results that must
 * be right or left.
 */
import { uniform, uniformInteger } from '@tandem-rl/base'
import { type ScriptedPolicy, scriptedPolicy } from '@tandem-rl/testing'
import { textOf, trainBytePairEncoding } from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { HistoryAction, TokenAction, TokenPrompt } from '../../src/data/policy.js'
import { type TaskSource, taskList } from '../../src/data/task.js'
import { data, ragged } from '../../src/data/tensorDict/leaf.js'
import type { DeepMerge } from '../../src/data/tensorDict/merge.js'
import { get, TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import type { Env, Outcome } from '../../src/envs/base/env.js'
import { DatasetChatEnv, type DatasetChatState } from '../../src/envs/datasetChatEnv.js'
import type { TaskEntries } from '../../src/envs/transforms/dataLoadingPrimer.js'
import { type StepCount, StepCounter } from '../../src/envs/transforms/stepCounter.js'
import { TemplateTransform, type TextEntries } from '../../src/envs/transforms/templateTransform.js'
import { Tokenizer } from '../../src/envs/transforms/tokenizer.js'
import { append, type Transform, transform } from '../../src/envs/transforms/transform.js'
import { type ModelText, textFromFiles } from '../../src/modules/pretrained/pretrained.js'
import type { DecoderConfig } from '../../src/modules/transformer/config.js'
import { type TinyChanges, tinyConfig } from './models.js'

const END = '<|im_end|>'

/** One token for each byte, and the marker that ends a turn: 257 ids. */
const BYTES_AND_END = 257

const TEMPLATE =
  "{%- for m in messages -%}{{- m.role + ': ' + m.content + '<|im_end|>' -}}{%- endfor -%}" +
  "{%- if add_generation_prompt -%}{{- 'assistant: ' -}}{%- endif -%}"

/** A tokenizer of single bytes with a plain chat template. */
export const byteText = (): ModelText => {
  const text = textFromFiles({
    folder: 'test',
    tokenizer: trainBytePairEncoding([], { vocabularySize: BYTES_AND_END, specialTokens: [END] }),
    settings: { eos_token: END },
    template: TEMPLATE,
  })
  if (E.isLeft(text)) throw new Error(text.left.reason)
  return text.right
}

/** A tiny decoder that can read and write `byteText`. */
export const byteConfig = (changes: TinyChanges = {}): DecoderConfig =>
  tinyConfig({ vocabularySize: BYTES_AND_END, endTokens: [BYTES_AND_END - 1], layers: 1, ...changes })

/** One task for each number: its episodes take that many turns. */
const turnTasks = (turns: readonly number[]): TaskSource =>
  taskList(
    'turns',
    turns.map((count, i) => ({ id: `t${i}`, query: `go ${i}`, answer: String(count) })),
  )

/**
 * Ends an episode after as many turns as the task's answer says. The reward of a turn is the length
 * of what was written.
 */
const endAfterTurns = transform<null, TaskEntries & StepCount & Outcome, unknown>({
  name: 'EndAfterTurns',
  initial: null,
  adds: {},
  step: (next, { action }) => {
    const counts = get(next, 'stepCount').dataSync()
    const wanted = get(next, 'answer').items.toArray().map(Number)
    const written = get(action as TensorDict<HistoryAction>, 'history', 'response').items.toArray() // inner to the template
    const over = wanted.map((count, i) => counts[i]! >= count)
    const added = scope(() =>
      TensorDict(
        {
          reward: tf.tensor1d(written.map((message) => textOf(message).length)),
          terminated: tf.tensor1d(over, 'bool'),
          done: tf.tensor1d(over, 'bool'),
        },
        next.batchShape,
      ),
    )
    return TE.right([added, null])
  },
})

/** Conversations in `byteText` of as many turns as their tasks say. */
export const turnEnv = (
  turns: readonly number[],
  batch: { readonly prompts: number; readonly repeats?: number; readonly start?: number },
): Env<TurnState, TokenAction> => {
  const text = byteText()
  return pipe(
    DatasetChatEnv({ source: turnTasks(turns), ...batch }),
    append(StepCounter()),
    append(endAfterTurns as Transform<null, unknown, unknown>), // the environment before it has what it needs
    append(TemplateTransform({ template: text.template, endOfTurn: text.endOfTurn })),
    append(Tokenizer({ tokenizer: text.tokenizer })),
  )
}

/** A state that asks a policy to write after the given ids. */
export const tokenPrompt = (rows: readonly (readonly number[])[]): TensorDict<TokenPrompt> =>
  TensorDict({ tokens: { prompt: ragged('int32', rows), spans: data(rows.map(() => [])) } }, [rows.length])

/** A policy that writes one to five letters, by its key alone, and ends its turn. */
export const smallPolicy = (): ScriptedPolicy<TokenPrompt, TokenAction> =>
  scriptedPolicy({
    sampling: { maxNewTokens: 6 },
    answers: (_, key) => {
      const letters = Array.from({ length: 1 + uniformInteger(key, 5) }, (_, t) => 32 + t)
      const ids = [...letters, BYTES_AND_END - 1]
      return { ids, logProbs: ids.map((_, t) => -uniform(key, t)) }
    },
  })

/** The states of a `turnEnv`. */
export type TurnState = DeepMerge<DeepMerge<DeepMerge<DatasetChatState, StepCount>, TextEntries>, TokenPrompt>
