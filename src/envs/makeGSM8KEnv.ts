import { checkOptions } from '@tandem-rl/base'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { TaskSource } from '../data/task.js'
import { type Data, data } from '../data/tensorDict/leaf.js'
import type { DeepMerge } from '../data/tensorDict/merge.js'
import { find, TensorDict } from '../data/tensorDict/tensorDict.js'
import { type Env, envFailure } from './base/env.js'
import { llmTextEnv, type TextResponse } from './llmEnv.js'
import { GSM8K_PREPARE_QUESTION_OPTIONS, MAKE_GSM8K_ENV_OPTIONS } from './optionKinds.js'
import type { GSM8KRewardOptions } from './rewards/gsm8k.js'
import { type AnswerParts, GSM8KRewardParser } from './transforms/answerParsers.js'
import { DataLoadingPrimer, type TaskEntries } from './transforms/dataLoadingPrimer.js'
import { type StepCount, StepCounter } from './transforms/stepCounter.js'
import type { TextEntries } from './transforms/templateTransform.js'
import { append, type Transform, transform } from './transforms/transform.js'

/** Formats a question as a text that a model without a chat template continues. */
const asConversation = (question: string): string =>
  'User asks Assistant a question. Assistant first thinks the problem through between <think> and </think>, and then writes nothing but ' +
  `the final number between <answer> and </answer>.\nUser: ${question}\nAssistant: `

export interface GSM8KPrepareQuestionOptions {
  /**
   * The text around a question. Default: a conversation of User and Assistant that asks for the two
   * blocks and opens none of them.
   */
  readonly prompt?: (question: string) => string
}

/**
 * Makes the text that an `llmTextEnv` begins with, `text.prompt`, of the `query` in the request of
 * a reset. Put it inside of what adds the query.
 *
 * Errors   `Left(EnvFailure)` if the request has no `query`.
 * Source   TorchRL `GSM8KPrepareQuestion`, whose prompt opens the think block, so that its reward
 *          never finds one in a completion.
 *
 * @example
 * GSM8KPrepareQuestion().name // 'GSM8KPrepareQuestion'
 */
export const GSM8KPrepareQuestion = (options: GSM8KPrepareQuestionOptions = {}): Transform<null, unknown, unknown> => {
  checkOptions('GSM8KPrepareQuestion', options, GSM8K_PREPARE_QUESTION_OPTIONS)
  const { prompt = asConversation } = options
  return transform<null, unknown, unknown>({
    name: 'GSM8KPrepareQuestion',
    initial: null,
    adds: {},
    prime: (request) => {
      const query = find(request, ['query'])
      if (query === undefined || !('_tag' in query) || query._tag !== 'Data') {
        return TE.left(envFailure('GSM8KPrepareQuestion', "the request has no 'query' to make a prompt of"))
      }
      const prompts = (query as Data<string>).items.map(prompt) // a query is text, by the schema of TaskEntries
      return TE.right([TensorDict({ text: { prompt: data(prompts) } }, request.batchShape), null])
    },
  })
}

export interface MakeGSM8KEnvOptions extends GSM8KPrepareQuestionOptions {
  readonly source: TaskSource
  /** Different tasks in a batch. Default 1. */
  readonly prompts?: number
  /** Completions of each task: the size of a group. Default 1. */
  readonly repeats?: number
  /** The row of the source to begin with. */
  readonly start?: number
  readonly reward?: GSM8KRewardOptions
  /** The spelling of the end token: see `llmTextEnv`. */
  readonly eosText?: string
}

export type MakeGSM8KState = DeepMerge<DeepMerge<DeepMerge<TextEntries, TaskEntries>, StepCount>, AnswerParts>

/**
 * GSM8K for models without a chat template: `llmTextEnv`, `GSM8KPrepareQuestion`, one step for each
 * episode, `GSM8KRewardParser` on the text of the completion. With `Tokenizer` around it, a policy
 * of tokens plays it. For models with a template there is `GSM8KEnv`.
 *
 * Source   TorchRL `make_gsm8k_env`, which hands its reward keys that are no longer written.
 *
 * @example
 * makeGSM8KEnv({ source: taskList('one', [{ id: 'a', query: 'What is 2 + 2?', answer: '#### 4' }]), repeats: 4 }).batchSize // 4
 */
export const makeGSM8KEnv = (options: MakeGSM8KEnvOptions): Env<MakeGSM8KState, TextResponse> => {
  checkOptions('makeGSM8KEnv', options, MAKE_GSM8K_ENV_OPTIONS)
  const { source, prompts = 1, repeats = 1, start, reward, prompt, eosText } = options
  const batchSize = prompts * repeats
  return pipe(
    llmTextEnv({ batchSize, ...(eosText !== undefined && { eosText }) }),
    append(GSM8KPrepareQuestion(prompt === undefined ? {} : { prompt })),
    append(DataLoadingPrimer({ source, batchSize, repeats, ...(start !== undefined && { start }) })),
    append(StepCounter({ maxSteps: 1 })),
    append(GSM8KRewardParser({ ...reward, inputMode: { _tag: 'text' } })),
  )
}
