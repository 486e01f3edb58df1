/** The arguments of a call that a model wrote. */
import * as E from 'fp-ts/lib/Either.js'
import { type ReadArguments, readArguments } from '../history/argumentText.js'
import { MAX_DEPTH } from './json.js'

/** Returns true if brackets outside of strings are nested more deeply than `levels`. */
const isDeeperThan = (json: string, levels: number): boolean => {
  let [depth, place]: [number, 'text' | 'string' | 'escape'] = [0, 'text']
  for (let i = 0; i < json.length && depth <= levels; i++) {
    const c = json[i]!
    if (place === 'escape') place = 'string'
    else if (place === 'string') place = c === '"' ? 'text' : c === '\\' ? 'escape' : 'string'
    else if (c === '"') place = 'string'
    else if (c === '{' || c === '[') depth += 1
    else if (c === '}' || c === ']') depth -= 1
  }
  return depth > levels
}

/** Parses the JSON text of arguments. Errors: `Left` with the reason for any other text. */
export const callArguments = (written: string): E.Either<string, ReadArguments> =>
  isDeeperThan(written, MAX_DEPTH) ? E.left(`nested more than ${MAX_DEPTH} levels`) : readArguments(written)
