/** Overrides such as `agents.player_0.model=hf_gpt2`, and the merge of configurations. */
import { parseJson } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { type ConfigProblem, configProblem } from './schema.js'

type Value = Readonly<Record<string, unknown>>

const isRecord = (value: unknown): value is Value =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * Merges configurations. Records are merged by key, and everything else of `above` replaces what is
 * below.
 *
 * @example
 * mergeConfigs({ a: { b: 1, c: 2 } }, { a: { b: 3 } }) // { a: { b: 3, c: 2 } }
 */
export const mergeConfigs = (below: Value, above: Value): Value => {
  const merged = Object.entries(above).map(([key, value]) => {
    const old = Object.hasOwn(below, key) ? below[key] : undefined
    return [key, isRecord(old) && isRecord(value) ? mergeConfigs(old, value) : value] as const
  })
  return { ...below, ...Object.fromEntries(merged) }
}

/**
 * Reads a typed value: `true`, `false`, `null` (also `True`, `None`), numbers, and JSON lists,
 * records and quoted strings. Everything else is text.
 */
const typedValue = (text: string): unknown => {
  if (/^(true|false)$/i.test(text)) return text.toLowerCase() === 'true'
  if (/^(null|none)$/i.test(text)) return null
  if (/^-?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i.test(text)) return Number(text)
  if (!/^["[{]/.test(text)) return text
  const json = parseJson(text)
  return E.isRight(json) ? json.right : text
}

/** Sets a value at a path. Numbers are indexes of lists. */
const withValue = (at: unknown, [key, ...rest]: readonly string[], value: unknown): unknown => {
  if (key === undefined) return value
  if (Array.isArray(at)) {
    const list: readonly unknown[] = at
    return /^\d+$/.test(key) && Number(key) < list.length
      ? list.with(Number(key), withValue(list[Number(key)], rest, value))
      : { [key]: value } // the check of the configuration refuses it
  }
  const record = isRecord(at) ? at : {}
  return { ...record, [key]: withValue(Object.hasOwn(record, key) ? record[key] : undefined, rest, value) }
}

/**
 * Applies overrides in order. An override is `KEY=VALUE`, where the key may have dots and indexes
 * of lists, as in `env_configs.0.game_name=hex`. Unknown keys are refused when the result is
 * checked.
 *
 * Errors   `Left` for an override without `=` or with an empty key.
 *
 * @example
 * applyOverrides({}, ['num_episodes=10']) // right({ num_episodes: 10 })
 */
export const applyOverrides = (config: Value, overrides: readonly string[]): E.Either<ConfigProblem, Value> => {
  let changed: unknown = config
  for (const override of overrides) {
    const at = override.indexOf('=')
    const path = override.slice(0, Math.max(0, at)).split('.')
    if (path.includes('__proto__')) return E.left(configProblem(`--override: unknown key '${path.join('.')}'`))
    if (at <= 0 || path.includes(''))
      return E.left(configProblem(`--override: expected KEY=VALUE, such as num_episodes=10, got '${override}'`))
    changed = withValue(changed, path, typedValue(override.slice(at + 1)))
  }
  return E.right(isRecord(changed) ? changed : config)
}
