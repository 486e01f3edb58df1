/** Compares the arithmetic of two configs, which must be equal for exchanging weights. */
import type { DecoderConfig } from '../transformer/config.js'

/**
 * Fields that do not affect a model's computation: the file, end tokens, padding and maximal
 * length.
 */
const OUTSIDE: readonly string[] = ['source', 'endTokens', 'padToken', 'maxPositions']

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null

/** Lists the paths of fields in which two plain values differ. */
const differences = (a: unknown, b: unknown, path: string): readonly string[] => {
  if (!isRecord(a) || !isRecord(b)) return Object.is(a, b) ? [] : [path]
  const names = new Set([...Object.keys(a), ...Object.keys(b)])
  return [...names].flatMap((name) => differences(a[name], b[name], path === '' ? name : `${path}.${name}`))
}

/**
 * Returns the paths of fields in which two configs compute differently from the same weights:
 * sizes, names, scales, epsilons, windows, rotary embeddings.
 */
export const arithmeticDifferences = (a: DecoderConfig, b: DecoderConfig): readonly string[] =>
  differences(a, b, '').filter((path) => !OUTSIDE.includes(path.split('.')[0]!))
