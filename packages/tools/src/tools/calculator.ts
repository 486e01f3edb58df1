import { checkOptions, decimalOf, exactValue, floatValue, parseArithmetic } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { z } from 'zod'
import { CALCULATOR_OPTIONS } from '../optionKinds.js'
import { type Tool, tool, toolFailure } from './tool.js'

export interface CalculatorOptions {
  /** Default `calculator`. */
  readonly name?: string
  /**
   * `exact`: computes with fractions and rounds only the shown result. `float`: computes with
   * floating-point numbers, as most calculators do, and allows any exponent. Default `exact`.
   */
  readonly numbers?: 'exact' | 'float'
  /** Decimal places of a shown exact result. Default 10. */
  readonly places?: number
  /** Maximum length of an expression in UTF-16 units. Default 1,000. */
  readonly maxLength?: number
  /** Maximum digits of a numerator or denominator in an exact computation. Default 300. */
  readonly maxDigits?: number
}

/** Formats a number, with `-0` as `0`. */
const shownFloat = (value: number): string => String(value === 0 ? 0 : value)

/**
 * Makes a calculator: `+ - * / % ^`, parentheses, signs and decimals. It parses the expression
 * itself, so that no text runs as a program, and its work is bounded for every input. It has no
 * state.
 *
 * Errors   throws RangeError if a limit is not a natural number. A call returns
 *          `Left(ToolFailure)`: `arguments` for an invalid expression, with the position and the
 *          expected input; `failed` for a division by 0 or a result that is too large.
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
