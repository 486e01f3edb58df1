/** `POST /tokenize` and `POST /detokenize`. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { requestedModel } from '../requests/common.js'
import { type ApiFailure, jsonResponse } from '../requests/failure.js'
import { parseFields, tokenIds } from '../requests/fields.js'
import { chatFields, conversation } from '../requests/messages.js'
import type { ReadingEnv, Served } from '../requests/served.js'

const shared = { model: z.string().nullish(), return_token_strs: z.boolean().nullish() }

const textSchema = z.object({ ...shared, prompt: z.string(), add_special_tokens: z.boolean().nullish() })

const chatSchema = z.object({ ...shared, ...chatFields })

/** A request as its body, the tokenizer and the template determine it. */
interface ReadText {
  readonly model: string | null | undefined
  readonly strings: 'yes' | 'no'
  readonly ids: Int32Array
}

const readOf = (
  { model, return_token_strs: strings }: { readonly [K in keyof typeof shared]?: z.infer<(typeof shared)[K]> },
  ids: Int32Array,
): ReadText => ({ model, strings: strings === true ? 'yes' : 'no', ids })

/**
 * Reads and encodes a text or a conversation.
 *
 * Errors   `Left(ApiFailure)`: 400 with the field.
 */
export const readTokenize = ({ text }: ReadingEnv, body: unknown): E.Either<ApiFailure, ReadText> => {
  if (typeof body === 'object' && body !== null && 'messages' in body) {
    const chat = parseFields(chatSchema, body)
    if (E.isLeft(chat)) return chat
    return E.map(({ ids }: { readonly ids: Int32Array }) => readOf(chat.right, ids))(conversation(text, chat.right))
  }
  return E.map((fields: z.infer<typeof textSchema>) => {
    const template = fields.add_special_tokens === false ? 'omit' : 'add'
    return readOf(fields, text.tokenizer.encode(fields.prompt, { template }))
  })(parseFields(textSchema, body))
}

/**
 * Returns the tokens of a text or a conversation.
 *
 * Errors   `Left(ApiFailure)`: 404 for an unknown model.
 */
export const tokenize = (served: Served, { model, strings, ids }: ReadText): E.Either<ApiFailure, Response> => {
  const { tokenizer } = served.text
  const tokens = Array.from(ids)
  return E.map(() =>
    jsonResponse({
      count: tokens.length,
      max_model_len: served.engine.info.maxModelLength,
      tokens,
      token_strs: strings === 'yes' ? tokens.map((id) => tokenizer.tokenOf(id) ?? '') : null,
    }),
  )(requestedModel(served, model))
}

const idsSchema = z.object({ model: z.string().nullish(), tokens: tokenIds })

type ReadIds = z.infer<typeof idsSchema>

/** Reads a list of tokens. Errors: `Left(ApiFailure)`, 400, with the field. */
export const readDetokenize = (_env: unknown, body: unknown): E.Either<ApiFailure, ReadIds> =>
  parseFields(idsSchema, body)

/**
 * Returns the text of tokens, including special tokens.
 *
 * Errors   `Left(ApiFailure)`: 404 for an unknown model.
 */
export const detokenize = (served: Served, { model, tokens }: ReadIds): E.Either<ApiFailure, Response> =>
  E.map(() => jsonResponse({ prompt: served.text.tokenizer.decode(tokens, 'keep') }))(requestedModel(served, model))
