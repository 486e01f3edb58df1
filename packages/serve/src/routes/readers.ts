/**
 * The readers of endpoints. They compute the part of a request that only the body, the tokenizer
 * and the template determine.
 */
import * as E from 'fp-ts/lib/Either.js'
import { type ReadChat, readChat } from '../requests/chat.js'
import { readCompletion } from '../requests/completion.js'
import type { ApiFailure } from '../requests/failure.js'
import { tooLong } from '../requests/length.js'
import type { ReadingEnv } from '../requests/served.js'
import { readGenerate } from './generate.js'
import { readMessageCount, readMessages } from './messages.js'
import { readResponses } from './responses.js'
import { readDetokenize, readTokenize } from './tokenize.js'

const READERS = {
  '/v1/completions': readCompletion,
  '/v1/chat/completions': ({ text }: ReadingEnv, body: unknown): E.Either<ApiFailure, ReadChat> => readChat(text, body),
  '/v1/responses': readResponses,
  '/v1/messages': readMessages,
  '/v1/messages/count_tokens': readMessageCount,
  '/inference/v1/generate': readGenerate,
  '/tokenize': readTokenize,
  '/detokenize': readDetokenize,
} as const

/** The path of an endpoint with a prompt. */
export type PromptPath = keyof typeof READERS

type ReaderResult<P extends PromptPath> = Awaited<ReturnType<(typeof READERS)[P]>>

/** The result of the reader of a path. It survives `structuredClone`. */
export type ReadOf<P extends PromptPath> = Extract<ReaderResult<P>, { readonly _tag: 'Right' }>['right']

/**
 * Reads the body of a request. Prompts far beyond the context are refused first.
 *
 * Errors   `Left(ApiFailure)`, 400, with the field.
 */
export const readRequest = async <P extends PromptPath>(
  env: ReadingEnv,
  path: P,
  body: unknown,
): Promise<E.Either<ApiFailure, ReadOf<P>>> => {
  const refused = await tooLong(body, { maxModelLength: env.maxModelLength, tokenizer: env.text.tokenizer })
  if (refused !== undefined) return E.left(refused)
  return (await READERS[path](env, body)) as E.Either<ApiFailure, ReadOf<P>> // of this path
}
