import { checkOptions, sipHash } from '@tandem-rl/base'
import type { TextTokenizer } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { TokenPrompt } from '../data/policy.js'
import { dataSpec, raggedSpec } from '../data/spec.js'
import { type Data, data, raggedRow, raggedRows } from '../data/tensorDict/leaf.js'
import type { DeepMerge } from '../data/tensorDict/merge.js'
import { get, TensorDict } from '../data/tensorDict/tensorDict.js'
import { type Env, envFailure } from './base/env.js'
import { LLMEnv, type TokenResponse } from './llmEnv.js'
import { DECODED_PROMPT_OPTIONS, LLM_HASHING_ENV_OPTIONS } from './optionKinds.js'
import { append, type Transform, transform } from './transforms/transform.js'

/** The name of a search state: 16 hexadecimal digits for each element. */
export type Hashing = { readonly hashing: Data<string> }
export type LLMHashingState = DeepMerge<TokenPrompt, Hashing>

export interface LLMHashingEnvOptions {
  readonly batchSize: number
  /** Ids of an action are below it. */
  readonly vocabularySize: number
  /** An action that contains it ends its episode. Default: nothing does. */
  readonly eosTokenId?: number
}

/** Each id as 64 bits, the lowest byte first, behind `start`. */
const bytesOf = (ids: Iterable<number>, start: Uint8Array = new Uint8Array()): Uint8Array => {
  const list = [...ids]
  const bytes = new Uint8Array(start.length + 8 * list.length)
  bytes.set(start)
  const view = new DataView(bytes.buffer)
  for (const [i, id] of list.entries()) view.setBigInt64(start.length + 8 * i, BigInt(id), true)
  return bytes
}

/** The eight bytes of a hash, the lowest first. */
const bytesOfHash = (hash: string): Uint8Array => {
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setBigUint64(0, BigInt(`0x${hash}`), true)
  return bytes
}

/**
 * The hash of a state of token ids: `sipHash` of the ids, 64 bits each, the lowest byte first.
 *
 * @example
 * hashTokens([1, 2]) === nextHash(hashTokens([1]), [2]) // false
 */
export const hashTokens = (ids: Iterable<number>): string => sipHash(bytesOf(ids))

/**
 * The hash of the state that `ids` lead to: one after the other, `h' = sipHash(h, id)`.
 *
 * @example
 * nextHash(hashTokens([1]), [2, 3]) === nextHash(nextHash(hashTokens([1]), [2]), [3]) // true
 */
export const nextHash = (hash: string, ids: Iterable<number>): string => {
  let result = hash
  for (const id of ids) result = sipHash(bytesOf([id], bytesOfHash(result)))
  return result
}

const outside = (ids: readonly (readonly number[])[], size: number): string | undefined => {
  const wrong = ids.flatMap((row, i) => row.flatMap((id) => (id >= 0 && id < size ? [] : [`${id} of element ${i}`])))
  return wrong.length === 0
    ? undefined
    : `the action has ids that are not below ${size}: ${wrong.slice(0, 5).join(', ')}`
}

const hashing = (vocabularySize: number): Transform<null, TokenPrompt, Hashing, unknown, TokenResponse> =>
  transform<null, TokenPrompt, Hashing, unknown, TokenResponse>({
    name: 'LLMHashingEnv',
    initial: null,
    needs: { observation: {}, action: { tokens: { response: raggedSpec('int32') } } },
    adds: { hashing: dataSpec<string>('string') },
    reset: (td) => {
      const first = raggedRows(get(td, 'tokens', 'prompt')).map(hashTokens)
      return TE.right([TensorDict({ hashing: data(first) }, td.batchShape), null])
    },
    step: (next, { previous, action }) => {
      const before = get(previous as TensorDict<Hashing>, 'hashing').items // added by `reset`
      const response = get(action as TensorDict<TokenResponse>, 'tokens', 'response') // needed of the action
      const after = before.map((hash, i) => nextHash(hash, raggedRow(response, i)))
      return TE.right([TensorDict({ hashing: data(after) }, next.batchShape), null])
    },
    inverse: (action) => {
      const problem = outside(raggedRows(get(action, 'tokens', 'response')), vocabularySize)
      return problem === undefined
        ? E.right(TensorDict({}, action.batchShape))
        : E.left(envFailure('LLMHashingEnv', problem))
    },
  })

/**
 * `LLMEnv` whose states have names, for searches in a tree of tokens: `hashing` is the hash of the
 * prompt after `reset`, and that of the state before and the ids of the action after `step`. Equal
 * ways to a state have equal names in every process and on every machine; several ids in one step
 * lead to the same name as one after the other.
 *
 * Errors   as `LLMEnv`; `Left(EnvFailure)` from `step` for ids outside of the vocabulary; throws
 *          RangeError unless `vocabularySize` is at least 1.
 * Cost     linear in the ids of the prompt for `reset`, of the action for `step`.
 * Source   TorchRL `LLMHashingEnv`, whose hash is Python's and depends on PYTHONHASHSEED.
 *
 * @example
 * LLMHashingEnv({ batchSize: 1, vocabularySize: 300 }).name // 'LLMEnv > LLMHashingEnv'
 */
export const LLMHashingEnv = (options: LLMHashingEnvOptions): Env<LLMHashingState, TokenResponse> => {
  checkOptions('LLMHashingEnv', options, LLM_HASHING_ENV_OPTIONS)
  const { vocabularySize, ...rest } = options
  if (!Number.isInteger(vocabularySize) || vocabularySize < 1) {
    throw new RangeError(`LLMHashingEnv: vocabularySize must be at least 1, got ${vocabularySize}`)
  }
  return pipe(LLMEnv(rest), append(hashing(vocabularySize)))
}

/**
 * Adds `text.prompt`, the text of the tokens so far, special tokens included, to environments that
 * have tokens only.
 *
 * Source   TorchRL `LLMHashingEnv` with `text_output=True`.
 */
export const decodedPrompt = (options: {
  readonly tokenizer: TextTokenizer
}): Transform<null, TokenPrompt, { readonly text: TensorDict<{ readonly prompt: Data<string> }> }> => {
  checkOptions('decodedPrompt', options, DECODED_PROMPT_OPTIONS)
  const decode = (td: TensorDict<TokenPrompt>) => {
    const texts = raggedRows(get(td, 'tokens', 'prompt')).map((ids) => options.tokenizer.decode(ids, 'keep'))
    return TE.right([TensorDict({ text: { prompt: data(texts) } }, td.batchShape), null] as const)
  }
  return transform<null, TokenPrompt, { readonly text: TensorDict<{ readonly prompt: Data<string> }> }>({
    name: 'decodedPrompt',
    initial: null,
    adds: { text: { prompt: dataSpec<string>('string') } },
    reset: decode,
    step: decode,
  })
}
