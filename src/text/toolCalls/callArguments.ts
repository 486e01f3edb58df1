/** The arguments of a call as a value. */
import * as E from 'fp-ts/lib/Either.js'
import { parseJson } from '../../core/json.js'
import type { ToolCall } from '../history/history.js'
import { jsonObject } from '../history/historyJson.js'
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
export const callArguments = (written: string): E.Either<string, ToolCall['arguments']> => {
  if (isDeeperThan(written, MAX_DEPTH)) return E.left(`nested more than ${MAX_DEPTH} levels`)
  const json = parseJson(written)
  if (E.isLeft(json)) return json
  const parsed = jsonObject.safeParse(json.right)
  return parsed.success ? E.right(parsed.data) : E.left('the arguments are not a JSON object')
}
