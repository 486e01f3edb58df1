import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { z } from 'zod'
import { aNumber, aText, checkOptions, type OptionKinds, oneOf } from '../../core/options.js'
import { exactValue, floatValue, parseArithmetic } from '../../data/arithmetic.js'
import { decimalOf } from '../../data/rational.js'
import { type Tool, tool, toolFailure } from './tool.js'

export interface CalculatorOptions {
  /** Default `calculator`. */
  readonly name?: string
  /**
   * `exact`: with fractions, rounded only to be shown. `float`: as most calculators have it, with
   * powers of any exponent. Default `exact`.
   */
  readonly numbers?: 'exact' | 'float'
  /** Decimal places that an exact result is rounded to. Default 10. */
  readonly places?: number
  /** UTF-16 units of an expression. Default 1,000. */
  readonly maxLength?: number
  /** Digits of a numerator or denominator on the way of an exact result. Default 300. */
  readonly maxDigits?: number
}

/** A policy that asks for 5.0 or 5e3 reads the same number as another. */
const shownFloat = (value: number): string => String(value === 0 ? 0 : value)

const CALCULATOR_OPTIONS: OptionKinds<CalculatorOptions> = {
  name: aText,
  numbers: oneOf('exact', 'float'),
  places: aNumber,
  maxLength: aNumber,
  maxDigits: aNumber,
}

/**
 * A calculator: `+ - * / % ^`, parentheses, signs and decimals. It reads the expression by itself,
 * so that no text runs as a program, and its work is bounded whatever the text is. Remembers
 * nothing.
 *
 * Errors   throws RangeError for limits that are no natural numbers. A call gives
 *          `Left(ToolFailure)`: `arguments` for what is no expression, with what was expected
 *          where; `failed` for a quotient by 0 and for what is too large.
 *
 * @example
 * calculator().name // 'calculator'
 */
export const calculator = (options: CalculatorOptions = {}): Tool => {
  checkOptions('calculator', options, CALCULATOR_OPTIONS)
  const { name = 'calculator', numbers = 'exact', places = 10, maxLength = 1000, maxDigits = 300 } = options
  const problems = Object.entries({ places, maxLength, maxDigits }).flatMap(([key, value]) =>
    Number.isSafeInteger(value) && value >= 0 ? [] : [`${key} must be an integer of at least 0, got ${value}`],
  )
  if (problems.length > 0) throw new RangeError(`calculator: ${problems.join('; ')}`)
  const resultOf = (expression: string) =>
    pipe(
      parseArithmetic(expression, { maxLength }),
      E.chain((tree) =>
        numbers === 'exact'
          ? pipe(
              exactValue(tree, { maxDigits }),
              E.map((value) => decimalOf(value, places)),
            )
          : pipe(floatValue(tree), E.map(shownFloat)),
      ),
    )
  return tool({
    name,
    description: 'Evaluates an arithmetic expression with + - * / % ^ and parentheses.',
    parameters: { expression: z.string().describe('For example (12 + 3) * 4 / 5.') },
    initial: null,
    run:
      ({ expression }) =>
      async () =>
        pipe(
          resultOf(expression),
          E.bimap(
            ({ kind, reason }) => toolFailure(name, kind === 'syntax' ? 'arguments' : 'failed', reason),
            (content) => ({ content, state: null }),
          ),
        ),
  })
}
