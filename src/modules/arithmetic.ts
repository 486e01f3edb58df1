/** Whether two configs describe the same arithmetic, so that the weights of one mean the same in the other. */
import type { DecoderConfig } from './transformer/config.js'

/** What decides no number that a model computes: the file itself, and how sequences end, are padded and how long they should be. */
const OUTSIDE: readonly string[] = ['source', 'endTokens', 'padToken', 'maxPositions']

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null

/** Paths of the fields in which two values of plain data differ. */
const differences = (a: unknown, b: unknown, path: string): readonly string[] => {
  if (!isRecord(a) || !isRecord(b)) return Object.is(a, b) ? [] : [path]
  const names = new Set([...Object.keys(a), ...Object.keys(b)])
  return [...names].flatMap((name) => differences(a[name], b[name], path === '' ? name : `${path}.${name}`))
}

/**
 * Paths of the fields of two configs by which the same weights give other numbers: sizes, names, scales, epsilons, windows, rotary embeddings.
 */
export const arithmeticDifferences = (a: DecoderConfig, b: DecoderConfig): readonly string[] =>
  differences(a, b, '').filter((path) => !OUTSIDE.includes(path.split('.')[0]!))
