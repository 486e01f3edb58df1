/**
 * A tokenizer, a chat template, tasks and answers for tests of environments, and what they all ask
 * of them.
 */
import { orThrow } from '@tandem-rl/base'
import type { Law } from '@tandem-rl/testing'
import {
  appendMessage,
  chatTemplate,
  type History,
  type Message,
  message,
  type Task,
  textTokenizer,
  trainBytePairEncoding,
} from '@tandem-rl/text'
import { discard } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { HistoryAction, HistoryPrompt } from '../../src/data/policy.js'
import { dataSpec } from '../../src/data/spec.js'
import { type TaskSource, taskList } from '../../src/data/task.js'
import { data, ragged } from '../../src/data/tensorDict/leaf.js'
import { find, get, TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import type { EnvFailure } from '../../src/envs/base/env.js'
import { ChatEnv } from '../../src/envs/chatEnv.js'
import { TemplateTransform } from '../../src/envs/transforms/templateTransform.js'
import { Tokenizer } from '../../src/envs/transforms/tokenizer.js'
import { append, type Transform, transform } from '../../src/envs/transforms/transform.js'

export const END_OF_TURN = '<|im_end|>'
const SPECIAL = ['<|endoftext|>', '<|im_start|>', END_OF_TURN]

/** ChatML, as the Qwen models have it. */
export const CHAT_ML = `{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}`

export const template = orThrow(chatTemplate(CHAT_ML))

const CORPUS = [
  '<think>6 * 3 = 18</think><answer>18</answer>',
  'How many pens are there? There are so many pens. user assistant',
]

/** A byte-level tokenizer of 300 tokens, the special ones included. */
export const tokenizer = orThrow(
  textTokenizer(trainBytePairEncoding(CORPUS, { vocabularySize: 300, specialTokens: SPECIAL })),
)

/** The token of the end of a turn. */
export const END = tokenizer.idOf(END_OF_TURN)!

/** The ids that a token policy sampled, one row for each batch element. */
export const sampled = (...rows: readonly (readonly number[])[]) =>
  TensorDict({ tokens: { response: ragged('int32', rows) } }, [rows.length])

/** Task `i` asks for i + i. */
export const taskOf = (i: number): Task => ({
  id: `t${i}`,
  query: `What is ${i} + ${i}?`,
  answer: `Twice ${i}.\n#### ${2 * i}`,
})

export const tasks = (size: number): TaskSource =>
  taskList(
    'sums',
    Array.from({ length: size }, (_, i) => taskOf(i)),
  )

/** Finished messages of the assistant. */
export const replies = (...texts: readonly string[]): TensorDict<HistoryAction> => {
  const messages: readonly Message[] = texts.map((text) => message('assistant', text))
  return TensorDict({ history: { response: data(messages) } }, [texts.length])
}

/** A user who asks on after every answer. Put it between a ChatEnv and its template. */
export const followUp = (question: string): Transform<null, HistoryPrompt, HistoryPrompt> =>
  transform<null, HistoryPrompt, HistoryPrompt>({
    name: 'followUp',
    initial: null,
    adds: { history: { prompt: dataSpec<History>('History') } },
    step: (next) => {
      const asked = get(next, 'history', 'prompt').items.map((history) =>
        appendMessage(history, message('user', question)),
      )
      return TE.right([TensorDict({ history: { prompt: data(asked) } }, next.batchShape), null])
    },
  })

/** Conversations in tokens with a user who asks on. */
export const tokenChat = (batchSize: number) =>
  pipe(
    ChatEnv({ batchSize }),
    append(followUp('And then?')),
    append(TemplateTransform({ template, endOfTurn: END_OF_TURN })),
    append(Tokenizer({ tokenizer })),
  )

/** A request for conversations about given questions. */
export const asking = (...questions: readonly string[]): TensorDict =>
  TensorDict({ query: data(questions) }, [questions.length])

export const empty = (batchSize: number): TensorDict => TensorDict({}, [batchSize])

/** Returns the value of an environment's step. Throws its failure. */
export const answered = async <T>(result: TE.TaskEither<EnvFailure, T>): Promise<T> => orThrow(await result())

/** The failure that an environment answered with. */
export const refused = async (result: TE.TaskEither<EnvFailure, unknown>): Promise<EnvFailure> => {
  const either = await result()
  if (either._tag === 'Right') throw new Error('expected a failure')
  return either.left
}

/** The numbers under a path of a TensorDict. */
export const numbersAt = (td: TensorDict, ...path: readonly string[]): readonly number[] => {
  const entry = find(td, path)
  if (!(entry instanceof tf.Tensor)) throw new Error(`no tensor at ${path.join('.')}`)
  return Array.from(entry.dataSync())
}

/** The values of a Data leaf under a path. */
export const itemsAt = (td: TensorDict, ...path: readonly string[]): readonly unknown[] => {
  const entry = find(td, path)
  if (entry === undefined || !('_tag' in entry) || entry._tag !== 'Data')
    throw new Error(`no data at ${path.join('.')}`)
  return entry.items.toArray()
}

/** The rows of a ragged leaf under a path. */
export const rowsAt = (td: TensorDict, ...path: readonly string[]): readonly (readonly number[])[] => {
  const entry = find(td, path)
  if (entry === undefined || !('_tag' in entry) || entry._tag !== 'Ragged')
    throw new Error(`no rows at ${path.join('.')}`)
  return Array.from({ length: entry.offsets.length - 1 }, (_, i) =>
    Array.from(entry.values).slice(entry.offsets[i], entry.offsets[i + 1]),
  )
}

/** Runs `f`, and frees the tensors of the values it gave to `keep`. */
export const freeing = async (f: (keep: <T>(value: T) => T) => Promise<void>): Promise<void> => {
  const kept: unknown[] = []
  try {
    await f((value) => {
      kept.push(value)
      return value
    })
  } finally {
    discard(kept)
  }
}

/**
 * The names, up to the colon, of the laws that do not hold. Frees what a failing law leaves behind.
 */
export const brokenLaws = async (laws: readonly Law[]): Promise<readonly string[]> => {
  const broken: string[] = []
  for (const { name, check } of laws) {
    tf.engine().startScope()
    try {
      await check()
    } catch {
      broken.push(name.split(':')[0]!)
    } finally {
      tf.engine().endScope()
    }
  }
  return broken
}
