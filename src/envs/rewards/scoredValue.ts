/** Scores from what users' functions return: numbers, or records of named numbers. */
import { unknownName } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { Scored } from './reward.js'

const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value)

const shown = (value: unknown): string =>
  typeof value === 'number' || value === undefined || value === null ? String(value) : `a value of type ${typeof value}`

/**
 * Reads a finite number for each name, and no others.
 *
 * Errors   `Left` with everything that is wrong with the value.
 */
const namedNumbers = (value: unknown, names: readonly string[]): E.Either<string, Readonly<Record<string, number>>> => {
  if (typeof value !== 'object' || value === null) {
    return E.left(`it returned ${shown(value)}: expected a record of ${names.join(', ')}`)
  }
  const given: Readonly<Record<string, unknown>> = { ...value }
  const problems = [
    ...names.flatMap((name) => {
      const what = name === 'reward' ? name : `the part '${name}'`
      return isNumber(given[name]) ? [] : [`${what} must be a finite number, got ${shown(given[name])}`]
    }),
    ...Object.keys(given).flatMap((name) => (names.includes(name) ? [] : [unknownName('part', name, names)])),
  ]
  return problems.length > 0 ? E.left(problems.join('; ')) : E.right(given as Readonly<Record<string, number>>) // checked
}

const plainNumber = (value: unknown, solvedAt: number): E.Either<string, Scored> =>
  isNumber(value)
    ? E.right({ reward: value, success: value >= solvedAt, parts: {} })
    : E.left(`it returned ${shown(value)}: expected a finite number, or a record with 'parts' set`)

/** The expected form of a reward. */
interface ScoreForm {
  readonly parts?: readonly string[]
  readonly solvedAt?: number
  /** Numbers beside `reward` and the parts: refused, or parts as well. Default `refuse`. */
  readonly extras?: 'refuse' | 'parts'
}

/**
 * Reads a reward: a number, or a record of `reward` and the declared parts. `Left` lists its
 * errors.
 */
export const scoredValue = (
  value: unknown,
  { parts: declared = [], solvedAt = 1, extras = 'refuse' }: ScoreForm,
): E.Either<string, Scored> => {
  if (declared.length === 0 && typeof value !== 'object') return plainNumber(value, solvedAt)
  if (extras === 'parts' && typeof value === 'object' && value !== null && Object.hasOwn(value, 'success'))
    return E.left(`the part 'success' needs another name: a reward of ${solvedAt} or more is a success`)
  const others = extras === 'parts' && typeof value === 'object' ? Object.keys(value ?? {}) : []
  const parts = [...new Set([...declared, ...others])].filter((name) => name !== 'reward')
  return E.map(({ reward, ...rest }: Readonly<Record<string, number>>) => ({
    reward: reward!,
    success: reward! >= solvedAt,
    parts: rest, // `namedNumbers` checked that it is there
  }))(namedNumbers(value, ['reward', ...parts]))
}

/**
 * Reads a reward of weighted parts, $\\sum_p w_p x_p$: a number without parts. `Left` lists its
 * errors.
 */
export const weighedValue = (
  value: unknown,
  { parts = {}, solvedAt = 1 }: { readonly parts?: Readonly<Record<string, number>>; readonly solvedAt?: number },
): E.Either<string, Scored> => {
  const names = Object.keys(parts)
  if (names.length === 0) return plainNumber(value, solvedAt)
  return E.map((given: Readonly<Record<string, number>>) => {
    const reward = names.reduce((sum, name) => sum + parts[name]! * given[name]!, 0)
    return { reward, success: reward >= solvedAt, parts: given }
  })(namedNumbers(value, names))
}
