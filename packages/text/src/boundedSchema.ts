/**
 * Schemas of lists and objects in requests. Their size is checked before their elements, and the
 * first wrong element ends the check, so a request costs no more than its limits allow.
 */
import { countOf } from '@tandem-rl/base'
import { z } from 'zod'

type Context = z.core.$RefinementCtx<unknown>

/** Limits of a list besides its greatest length. */
interface ListLimits {
  /** Default 0. */
  readonly atLeast?: number
  /** Wrong items whose problems are reported. The check ends with the last of them. Default 1. */
  readonly reported?: number
}

/** True for problems of a value of the right type. A union of one such type reports them. */
const isOfItsType = ({ code }: z.core.$ZodIssue): boolean => code === 'too_big' || code === 'too_small'

/** Adds the problems of an element. */
const addAt = (context: Context, at: string | number, error: z.ZodError): void => {
  for (const issue of error.issues)
    context.addIssue({ ...issue, path: [at, ...issue.path], ...(isOfItsType(issue) && { continue: true }) })
}

const refuseType = (context: Context, expected: 'array' | 'record', input: unknown): never => {
  context.addIssue({ code: 'invalid_type', expected, input })
  return z.NEVER
}

const refuseSize = (context: Context, message: string): never => {
  context.addIssue({ code: 'custom', message, continue: true })
  return z.NEVER
}

const readList = <T>(
  value: unknown,
  context: Context,
  { most, atLeast = 0, read }: ListLimits & { readonly most: number; readonly read: (items: readonly unknown[]) => T },
): T => {
  if (!Array.isArray(value)) return refuseType(context, 'array', value)
  if (value.length > most) return refuseSize(context, `expected at most ${countOf(most, 'item')}`)
  if (value.length < atLeast) return refuseSize(context, `expected at least ${countOf(atLeast, 'item')}`)
  return read(value)
}

/**
 * A list of at most `most` items.
 *
 * @example
 * boundedList(z.string(), 2).safeParse(['a', 'b']).success // true
 */
export const boundedList = <S extends z.ZodType>(item: S, most: number, { reported = 1, ...limits }: ListLimits = {}) =>
  z.unknown().transform((value, context): readonly z.output<S>[] =>
    readList(value, context, {
      most,
      ...limits,
      read: (items) => {
        const result: z.output<S>[] = []
        let wrong = 0
        for (const [i, each] of items.entries()) {
          const read = item.safeParse(each)
          if (read.success) result.push(read.data)
          else {
            addAt(context, i, read.error)
            if (++wrong === reported) break
          }
        }
        return result
      },
    }),
  )

/** A list of numbers that `isRight` accepts. `item` describes the first other one. */
const numbers = (
  item: z.ZodType<number>,
  isRight: (value: number) => boolean,
  limits: ListLimits & { readonly most: number },
) =>
  z.unknown().transform((value, context): readonly number[] =>
    readList(value, context, {
      ...limits,
      read: (items) => {
        const wrong = items.findIndex((each) => typeof each !== 'number' || !isRight(each))
        const read = wrong === -1 ? undefined : item.safeParse(items[wrong])
        if (read?.success === false) addAt(context, wrong, read.error)
        return items as readonly number[] // each is a number, or there is a problem
      },
    }),
  )

/** A list of at most `most` finite numbers. */
export const numberList = (most: number) => numbers(z.number(), Number.isFinite, { most })

/** A list of at most `most` integers from 0 to `largest`. */
export const naturalList = (largest: number, most: number, { atLeast = 0 }: Pick<ListLimits, 'atLeast'> = {}) =>
  numbers(z.int().min(0).max(largest), (value) => Number.isInteger(value) && value >= 0 && value <= largest, {
    most,
    atLeast,
  })

/**
 * An object with at most `most` fields of one kind.
 *
 * @example
 * table(z.number(), 1).safeParse({ a: 1, b: 2 }).success // false
 */
export const table = <S extends z.ZodType>(field: S, most: number) =>
  z.unknown().transform((value, context): Readonly<Record<string, z.output<S>>> => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return refuseType(context, 'record', value)
    const entries = Object.entries(value)
    if (entries.length > most) return refuseSize(context, `expected at most ${countOf(most, 'field')}`)
    const fields: [string, z.output<S>][] = []
    for (const [name, each] of entries) {
      if (name === '__proto__') continue // as in zod
      const read = field.safeParse(each)
      if (read.success) fields.push([name, read.data])
      else {
        addAt(context, name, read.error)
        break
      }
    }
    return Object.fromEntries(fields) as Readonly<Record<string, z.output<S>>> // each is an output
  })
