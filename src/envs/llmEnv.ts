/**
 * Environments in which what the policy writes is put after what it was plainText: without
 * messages, as tokens or as text.
 */
import { checkOptions } from '@tandem-rl/base'
import type { TextRange, TextSpan, TokenSpan } from '@tandem-rl/text'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { TokenPrompt } from '../data/policy.js'
import { dataSpec, raggedSpec } from '../data/spec.js'
import { type Data, data, joinRows, type Ragged, raggedRow, rowLengths } from '../data/tensorDict/leaf.js'
import { find, get, TensorDict } from '../data/tensorDict/tensorDict.js'
import { type Env, type EnvFailure, envFailure } from './base/env.js'
import { makeEnv } from './base/makeEnv.js'
import { LLM_ENV_OPTIONS, LLM_TEXT_ENV_OPTIONS } from './optionKinds.js'
import { TEXT_SPECS, type TextEntries } from './transforms/templateTransform.js'

export type TokenResponse = { readonly tokens: TensorDict<{ readonly response: Ragged<'int32'> }> }
export type TextResponse = { readonly text: TensorDict<{ readonly response: Data<string> }> }

/** The first state of a request, or the failure that names what the request lacks. */
const opened = <O>(name: string, first: TensorDict<O> | string): TE.TaskEither<EnvFailure, TensorDict<O>> =>
  typeof first === 'string' ? TE.left(envFailure(name, first)) : TE.right(first)

export interface LLMEnvOptions {
  readonly batchSize: number
  /** An action that contains it ends its episode. Default: nothing does. */
  readonly eosTokenId?: number
}

const isTokenRows = (entry: unknown, size: number): entry is Ragged<'int32'> =>
  typeof entry === 'object' &&
  entry !== null &&
  '_tag' in entry &&
  entry._tag === 'Ragged' &&
  (entry as Ragged).type === 'int32' && // a Ragged by its tag
  rowLengths(entry as Ragged).length === size

/** The prompts and, where the request does not know whose they are, one span over each. */
const tokenOpening =
  (batchSize: number) =>
  (request: TensorDict): TensorDict<TokenPrompt> | string => {
    const prompt = find(request, ['tokens', 'prompt'])
    if (!isTokenRows(prompt, batchSize)) {
      return `reset needs 'tokens.prompt', ${batchSize} rows of int32, in its request`
    }
    const given = find(request, ['tokens', 'spans'])
    const spans =
      given !== undefined && '_tag' in given && given._tag === 'Data'
        ? (given as Data<readonly TokenSpan[]>) // by the schema of TokenPrompt
        : data(
            rowLengths(prompt).map((end) => [{ start: 0, end, message: 0, role: 'user', origin: 'rendered' as const }]),
          )
    return TensorDict({ tokens: { prompt, spans } }, [batchSize])
  }

/** Each prompt with what was sampled behind it. */
const joinedTokens = (state: TensorDict<TokenPrompt>, response: Ragged<'int32'>): TensorDict<TokenPrompt> => {
  const prompt = get(state, 'tokens', 'prompt')
  const [starts, lengths] = [rowLengths(prompt), rowLengths(response)]
  const spans = get(state, 'tokens', 'spans').items.map((before, i) => {
    const [start, message] = [starts[i]!, (before.at(-1)?.message ?? -1) + 1]
    const sampled = { start, end: start + lengths[i]!, message, role: 'assistant', origin: 'sampled' as const }
    return [...before, sampled]
  })
  return TensorDict({ tokens: { prompt: joinRows(prompt, response), spans: data(spans) } }, state.batchShape)
}

/** Returns which rows contain an id. */
const rowsWith = (rows: Ragged<'int32'>, id: number | undefined): readonly boolean[] =>
  rowLengths(rows).map((_, i) => id !== undefined && raggedRow(rows, i).includes(id))

/**
 * An environment of tokens that the policy continues: after a turn, the next `tokens.prompt` is the
 * previous one followed by `tokens.response`. There is no reward; an episode ends if the action
 * contains `eosTokenId`.
 *
 * `reset` requires `tokens.prompt` in its request; the optional `tokens.spans` contains the authors
 * of those tokens.
 *
 * Errors   `Left(EnvFailure)` from `reset` if the request has no such prompts; throws RangeError
 *          for a batch size below 1, for an id below 0, and for an action of another batch shape.
 * Source   TorchRL `LLMEnv` with `from_text=False`; reward and ends are always assigned, one for
 *          each element.
 *
 * @example
 * LLMEnv({ batchSize: 2, eosTokenId: 0 }).name // 'LLMEnv'
 */
export const LLMEnv = (options: LLMEnvOptions): Env<TokenPrompt, TokenResponse> => {
  checkOptions('LLMEnv', options, LLM_ENV_OPTIONS)
  const { batchSize, eosTokenId } = options
  if (eosTokenId !== undefined && (!Number.isInteger(eosTokenId) || eosTokenId < 0)) {
    throw new RangeError(`LLMEnv: eosTokenId must be an id from 0 on, got ${eosTokenId}`)
  }
  return makeEnv<TokenPrompt, TokenResponse>({
    name: 'LLMEnv',
    batchSize,
    specs: {
      observation: { tokens: { prompt: raggedSpec('int32'), spans: dataSpec<readonly TokenSpan[]>('TokenSpan[]') } },
      action: { tokens: { response: raggedSpec('int32') } },
    },
    reset: (request) => opened('LLMEnv', tokenOpening(batchSize)(request)),
    step: (state, action) =>
      TE.fromIO(() => {
        const response = get(action, 'tokens', 'response')
        return { next: joinedTokens(state, response), terminated: rowsWith(response, eosTokenId) }
      }),
  })
}

export interface LLMTextEnvOptions {
  readonly batchSize: number
  /**
   * An action that contains this text ends its episode: the spelling of the end token. Default:
   * nothing does.
   */
  readonly eosText?: string
  /**
   * Recognize control tokens in the text of a prompt (`Tokenizer`), or not. Default `none`: a
   * prompt is plain text.
   */
  readonly controlTokens?: 'none' | 'recognized'
}

const textOpening =
  ({ batchSize, controlTokens = 'none' }: LLMTextEnvOptions) =>
  (request: TensorDict): TensorDict<TextEntries> | string => {
    const prompt = find(request, ['text', 'prompt'])
    const isData = prompt !== undefined && '_tag' in prompt && prompt._tag === 'Data'
    if (!isData || !prompt.items.every((text) => typeof text === 'string') || prompt.items.size !== batchSize) {
      return `reset needs 'text.prompt', ${batchSize} strings, in its request`
    }
    const texts = prompt as Data<string> // each is a string, as was just seen
    const ranges = texts.items.map((text): readonly TextRange[] =>
      text === '' ? [] : [{ start: 0, end: text.length }],
    )
    const spans = ranges.map((all): readonly TextSpan[] => all.map((range) => ({ ...range, message: 0, role: 'user' })))
    const given = controlTokens === 'none' ? ranges : ranges.map(() => [])
    return TensorDict({ text: { prompt: texts, spans: data(spans), plainText: data(given) } }, [batchSize])
  }

const joinedTexts = (state: TensorDict<TextEntries>, written: Data<string>): TensorDict<TextEntries> => {
  const before = get(state, 'text')
  const prompt = get(before, 'prompt').items.map((text, i) => text + written.items.get(i)!) // equal batch shapes
  const spans = get(before, 'spans').items.map((known, i): readonly TextSpan[] => {
    const start = get(before, 'prompt').items.get(i)!.length // one for each element
    const message = (known.at(-1)?.message ?? -1) + 1
    return [...known, { start, end: prompt.get(i)!.length, message, role: 'assistant' }]
  })
  return TensorDict(
    { text: { prompt: data(prompt), spans: data(spans), plainText: get(before, 'plainText') } },
    state.batchShape,
  )
}

/**
 * `LLMEnv` in text: `text.prompt` becomes `text.prompt` and `text.response` after it. With
 * `Tokenizer` around it, a policy of tokens plays it.
 *
 * Errors   as `LLMEnv`.
 * Source   TorchRL `LLMEnv` with `from_text=True`.
 *
 * @example
 * llmTextEnv({ batchSize: 1, eosText: '<|endoftext|>' }).name // 'llmTextEnv'
 */
export const llmTextEnv = (options: LLMTextEnvOptions): Env<TextEntries, TextResponse> => {
  checkOptions('llmTextEnv', options, LLM_TEXT_ENV_OPTIONS)
  return makeEnv<TextEntries, TextResponse>({
    name: 'llmTextEnv',
    batchSize: options.batchSize,
    specs: { observation: { text: TEXT_SPECS }, action: { text: { response: dataSpec<string>('string') } } },
    reset: (request) => opened('llmTextEnv', textOpening(options)(request)),
    step: (state, action) =>
      TE.fromIO(() => {
        const written = get(action, 'text', 'response')
        const { eosText } = options
        const terminated = written.items.map((text) => eosText !== undefined && text.includes(eosText)).toArray()
        return { next: joinedTexts(state, written), terminated }
      }),
  })
}
