/**
 * The arguments of tool calls as JSON text. Values of JavaScript do not have all that a text has:
 * 1.0 is a float in Python and prints as one, and an integer beyond 2^53 would become another id.
 */
import { isJsonObject, parseJson, parseWrittenJson, plainJson, type StrictJson, writeJson } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { ToolCall } from './history.js'

/** The arguments of a call, and their text if the values alone would be written differently. */
export type ReadArguments = Pick<ToolCall, 'arguments' | 'written'>

/**
 * Reads arguments from their text.
 *
 * Errors   `Left` with the reason for text that is not a JSON object, a number that is too large,
 *          and more than 129 levels.
 *
 * @example
 * readArguments('{"f": 1.0}') // right({ arguments: { f: 1 }, written: '{"f":1.0}' })
 */
export const readArguments = (text: string): E.Either<string, ReadArguments> => {
  const json = parseJson(text)
  if (E.isLeft(json)) return json
  const exact = parseWrittenJson(text)
  if (E.isLeft(exact)) return exact
  if (!isJsonObject(exact.right)) return E.left('the arguments are not a JSON object')
  const plain = plainJson(exact.right) as ToolCall['arguments'] // of an object
  const written = writeJson(exact.right)
  return E.right({ arguments: plain, ...(JSON.stringify(plain) !== written && { written }) })
}

/**
 * Returns the exact arguments of a call: with their numbers as written, unless `arguments` were
 * changed since.
 */
export const exactArguments = ({ arguments: args, written }: ToolCall): ToolCall['arguments'] | StrictJson => {
  if (written === undefined) return args
  const exact = parseWrittenJson(written)
  return E.isRight(exact) && JSON.stringify(plainJson(exact.right)) === JSON.stringify(args) ? exact.right : args
}

/** Returns the arguments of a call as JSON text, with their numbers as written. */
export const argumentsText = (call: ToolCall): string => {
  const exact = exactArguments(call)
  return exact === call.arguments ? JSON.stringify(exact) : writeJson(exact as StrictJson) // the only other value
}
