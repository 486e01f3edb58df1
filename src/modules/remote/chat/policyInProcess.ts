/** Policies of models in this process. */
import type { Failure } from '@tandem-rl/base'
import { encodeRendered, render } from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { LogProbModel, PolicyFailure } from '../../../data/policy.js'
import { ragged, raggedRows } from '../../../data/tensorDict/leaf.js'
import { historyPolicy } from '../../historyPolicy.js'
import type { FallbackFormat } from '../../pretrained/chatFormats.js'
import { loadPretrained, type ModelText, makeParams } from '../../pretrained/pretrained.js'
import { TransformersWrapper } from '../../transformersWrapper.js'
import {
  type FoundPolicy,
  type Lookup,
  listedAs,
  namedPolicy,
  type RegistryWorld,
  type ReplyScorer,
} from './policyLookup.js'

/** Repositories and their short names, which Transformers takes, too. */
const SHORT_NAMES: Readonly<Record<string, readonly string[]>> = {
  'openai-community/gpt2': ['gpt2'],
  'distilbert/distilgpt2': ['distilgpt2'],
  'EleutherAI/gpt-neo-125m': ['gpt-neo-125m', 'gpt-neo-125M'],
}

/** A folder that exists comes before a short name. */
const modelNamed = (id: string, { files }: RegistryWorld): TE.TaskEither<Failure, string> =>
  pipe(
    files.exists(id),
    TE.bimap(
      (failure): Failure => failure,
      (exists) => (exists ? id : listedAs(SHORT_NAMES, id)),
    ),
  )

/** Base models whose files name no end token. */
const END_OF_GPT2 = '<|endoftext|>'

/**
 * The chat format of a base model: GPT-2 and its relatives end a turn with their only special
 * token.
 */
const formatOf = (model: string, format: FallbackFormat): FallbackFormat =>
  Object.hasOwn(SHORT_NAMES, model) ? { endOfTurn: END_OF_GPT2, ...format } : format

const scoringFailure = (reason: string): PolicyFailure => ({
  _tag: 'PolicyFailure',
  policy: 'scoreReplies',
  kind: 'asked',
  reason,
})

/** Scores replies with a model in this process, at temperature 1. */
const scorerOf =
  (model: LogProbModel, { tokenizer, template, endOfTurn }: ModelText): ReplyScorer =>
  (history, replies) => {
    const prompt = render(template, history, { generationPrompt: 'add' })
    if (E.isLeft(prompt)) return TE.left(scoringFailure(prompt.left.reason))
    const { ids } = encodeRendered(tokenizer, prompt.right)
    const end = tokenizer.idOf(endOfTurn)
    const completions = replies.map((reply) => [...tokenizer.encode(reply), ...(end === undefined ? [] : [end])])
    return pipe(
      model.score(
        ragged(
          'int32',
          replies.map(() => ids),
        ),
        ragged('int32', completions),
        1,
      ),
      TE.map((scores) => raggedRows(scores).map((row) => row.reduce((sum, each) => sum + each, 0))),
    )
  }

/** Finds `hf_ID`: a folder or a repository of the hub, as a model in this process. */
export const inProcess = (id: string, { world, sampling, options: { fallbackFormat } }: Lookup): FoundPolicy =>
  pipe(
    modelNamed(id, world),
    TE.chainW((model) =>
      loadPretrained(model, world.files, {
        hub: world.hub(),
        ...(fallbackFormat !== undefined && { fallbackFormat: formatOf(model, fallbackFormat) }),
      }),
    ),
    TE.map(({ config, arrays, text }) => {
      const { topP, ...rest } = sampling
      const model = scope(() =>
        TransformersWrapper({
          config,
          params: makeParams(arrays),
          sampling: { ...rest, ...(topP !== undefined && topP < 1 && { topP }) },
        }),
      )
      const policy = historyPolicy({ policy: model, tokenizer: text.tokenizer, template: text.template })
      return { ...namedPolicy(policy, `hf_${id}`, async () => model.release()), scoreReplies: scorerOf(model, text) }
    }),
  )
