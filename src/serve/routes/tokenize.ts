/** `POST /tokenize` and `POST /detokenize`. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { askedModel } from '../requests/common.js'
import { type ApiFailure, jsonResponse } from '../requests/failure.js'
import { parseFields, tokenIds } from '../requests/fields.js'
import { chatFields, conversation } from '../requests/messages.js'
import type { Served } from '../requests/served.js'

const shared = { model: z.string().nullish(), return_token_strs: z.boolean().nullish() }

const textSchema = z.object({ ...shared, prompt: z.string(), add_special_tokens: z.boolean().nullish() })

const chatSchema = z.object({ ...shared, ...chatFields })

const idsOfText = (
  served: Served,
  body: unknown,
): E.Either<ApiFailure, readonly [z.infer<typeof textSchema>, Int32Array]> =>
  E.map(
    (fields: z.infer<typeof textSchema>) =>
      [
        fields,
        served.text.tokenizer.encode(fields.prompt, { template: fields.add_special_tokens === false ? 'omit' : 'add' }),
      ] as const,
  )(parseFields(textSchema, body))

const idsOfChat = (
  served: Served,
  body: unknown,
): E.Either<ApiFailure, readonly [z.infer<typeof chatSchema>, Int32Array]> => {
  const fields = parseFields(chatSchema, body)
  if (E.isLeft(fields)) return fields
  return E.map(({ ids }: { readonly ids: Int32Array }) => [fields.right, ids] as const)(
    conversation(served.text, fields.right),
  )
}

/**
 * Returns the tokens of a text or a conversation.
 *
 * Errors   `Left(ApiFailure)`: 400 with the field, 404 for an unknown model.
 */
export const tokenize = (served: Served, body: unknown): E.Either<ApiFailure, Response> => {
  const isChat = typeof body === 'object' && body !== null && 'messages' in body
  const read = isChat ? idsOfChat(served, body) : idsOfText(served, body)
  if (E.isLeft(read)) return read
  const [fields, ids] = read.right
  const model = askedModel(served, fields.model)
  if (E.isLeft(model)) return model
  const tokens = Array.from(ids)
  return E.right(
    jsonResponse({
      count: tokens.length,
      max_model_len: served.engine.info.maxModelLength,
      tokens,
      token_strs:
        fields.return_token_strs === true ? tokens.map((id) => served.text.tokenizer.tokenOf(id) ?? '') : null,
    }),
  )
}

const idsSchema = z.object({ model: z.string().nullish(), tokens: tokenIds })

/**
 * Returns the text of tokens, including special tokens.
 *
 * Errors   `Left(ApiFailure)`: 400 with the field, 404 for an unknown model.
 */
export const detokenize = (served: Served, body: unknown): E.Either<ApiFailure, Response> => {
  const fields = parseFields(idsSchema, body)
  if (E.isLeft(fields)) return fields
  const model = askedModel(served, fields.right.model)
  if (E.isLeft(model)) return model
  return E.right(jsonResponse({ prompt: served.text.tokenizer.decode(fields.right.tokens, 'keep') }))
}
