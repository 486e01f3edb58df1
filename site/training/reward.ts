/**
 * A reward as an arithmetic expression, which a visitor may edit. It is parsed, never run as code,
 * in time linear in its length.
 */
import { type Arithmetic, floatValue, parseArithmetic } from '@tandem-rl/base'

/** What an expression may name, with its meaning. */
export const VARIABLES = {
  right: '1 if the answer is right, else 0',
  answer: '1 if there is an answer, else 0',
  think: '1 if there is reasoning before the answer, else 0',
  words: 'the number of words of the completion',
} as const

type Variable = keyof typeof VARIABLES

/** The reward of GSM8K: 1 for the right answer, 0.1 for another answer, 0 for none. */
export const DEFAULT_REWARD = 'right + 0.1 * (answer - right)'

export type Measured = Readonly<Record<Variable, number>>

const isVariable = (name: string): name is Variable => Object.hasOwn(VARIABLES, name)

/** Puts numbers in place of the names. Throws RangeError for other names. */
const filled = (expression: string, values: Measured): string =>
  expression.replaceAll(/[A-Za-z]+/g, (name) => {
    if (!isVariable(name))
      throw new RangeError(
        `'${name}' is unknown: use ${Object.keys(VARIABLES).join(', ')}, numbers and + - * / % ^ ( )`,
      )
    return String(values[name])
  })

const parsed = (text: string): Arithmetic => {
  const tree = parseArithmetic(text)
  if (tree._tag === 'Left') throw new RangeError(tree.left.reason)
  return tree.right
}

/**
 * Computes an expression for one completion. A quotient by 0 has no value: it counts as 0.
 *
 * Errors   throws RangeError for an unknown name and for text that is not arithmetic.
 */
export const rewardOf = (expression: string, values: Measured): number => {
  const value = floatValue(parsed(filled(expression, values)))
  return value._tag === 'Right' && Number.isFinite(value.right) ? value.right : 0
}

const SOME: Measured = { right: 1, answer: 1, think: 1, words: 9 }

/** Returns what is wrong with an expression, or `null`. */
export const problemOf = (expression: string): string | null => {
  try {
    rewardOf(expression, SOME)
    return null
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
