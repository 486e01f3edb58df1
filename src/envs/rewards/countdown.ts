/** Countdown: an expression of given numbers, each used at most once, whose value is the target. */
import {
  checkOptions,
  child,
  exactValue,
  type FormatFailure,
  type Key,
  literalsOf,
  parseArithmetic,
  permutation,
  uniformInteger,
} from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { endlessTasks, type RowTask, type TaskSource } from '../../data/task.js'
import { COUNTDOWN_REWARD_OPTIONS, COUNTDOWN_TASKS_OPTIONS } from '../optionKinds.js'
import { ANSWER_PARTS, type AnswerReward, type AnswerRewardOptions, answerRange, answerScore } from './answerScore.js'
import { answerIn, blockOf } from './reply.js'

/** The target and the numbers of a puzzle. */
export interface CountdownGoal {
  readonly target: number
  readonly numbers: readonly number[]
}

/** A puzzle with a solution. */
export interface CountdownRow extends CountdownGoal {
  readonly solution: string
}

export interface CountdownTaskOptions {
  /** Count of given numbers. Default 4. */
  readonly numCount?: number
  /** Largest given number. Default 100. */
  readonly maxNumber?: number
  /** Largest target, except for sums of all numbers. Default 1000. */
  readonly maxTarget?: number
}

/** Formats a goal as the answer of a task. */
const answerOf = ({ target, numbers }: CountdownGoal): string => `target=${target}, numbers=${numbers.join(',')}`

/**
 * Parses the goal from the answer of a task.
 *
 * Errors   `Left(FormatFailure)` for any other text.
 *
 * @example
 * countdownGoal('target=24, numbers=4,6').right // { target: 24, numbers: [4, 6] }
 */
export const countdownGoal = (answer: string): E.Either<FormatFailure, CountdownGoal> => {
  const [, target, numbers] = /^target=(\d{1,15}), numbers=(\d{1,15}(?:,\d{1,15})*)$/.exec(answer) ?? []
  return target === undefined || numbers === undefined
    ? E.left({
        _tag: 'FormatFailure',
        format: 'Countdown answer',
        reason: `'${answer.slice(0, 100)}' is not 'target=N, numbers=A,B,...'`,
      })
    : E.right({ target: Number(target), numbers: numbers.split(',').map(Number) })
}

const OPERATORS = ['+', '-', '*'] as const

/** A value with its expression, and with that of its negative if it contains a difference. */
interface Folded {
  readonly value: number
  readonly text: string
  readonly negated?: string
}

const folded = ({ value, text, negated }: Folded, operator: (typeof OPERATORS)[number], next: number): Folded => {
  switch (operator) {
    case '+':
      return { value: value + next, text: `(${text} + ${next})`, ...(negated && { negated: `(${negated} - ${next})` }) }
    case '-':
      return { value: value - next, text: `(${text} - ${next})`, negated: `(${next} - ${text})` }
    case '*':
      return { value: value * next, text: `${text} * ${next}`, ...(negated && { negated: `${negated} * ${next}` }) }
  }
}

const drawPuzzle = (key: Key, { numCount, maxNumber, maxTarget }: Required<CountdownTaskOptions>): CountdownRow => {
  const drawn = Array.from({ length: numCount }, (_, i) => 1 + uniformInteger(child(key, 'numbers'), maxNumber, i))
  const [first, ...rest] = [...permutation(child(key, 'order'), numCount)].map((i) => drawn[i]!)
  const start: Folded = { value: first!, text: `${first}` } // there is one number at least
  const { value, text, negated } = rest.reduce(
    (before, next, i) => folded(before, OPERATORS[uniformInteger(child(key, 'operators'), OPERATORS.length, i)]!, next),
    start,
  )
  const target = Math.abs(value)
  if (target === 0 || target > maxTarget) {
    return { target: drawn.reduce((sum, x) => sum + x, 0), numbers: drawn, solution: drawn.join(' + ') }
  }
  return { target, numbers: drawn, solution: value < 0 ? (negated ?? text) : text }
}

const checkSizes = ({ numCount, maxNumber, maxTarget }: Required<CountdownTaskOptions>): void => {
  const problem = (name: string, value: number, most: number): readonly string[] =>
    Number.isInteger(value) && value >= 1 && value <= most ? [] : [`${name} must be from 1 to ${most}, got ${value}`]
  const problems = [
    ...problem('numCount', numCount, 20),
    ...problem('maxNumber', maxNumber, 1_000_000),
    ...problem('maxTarget', maxTarget, 1_000_000_000),
  ]
  if (problems.length > 0) throw new RangeError(`countdownTasks: ${problems.join('; ')}`)
}

/**
 * Makes an endless source of puzzles. `numCount` numbers from 1 to `maxNumber` are drawn and
 * combined from the left, in random order, by random `+ - *`. The target is the absolute value of
 * the result, or the sum of all numbers if that is 0 or above `maxTarget`. Every puzzle has a
 * solution.
 *
 * Errors   throws RangeError for options that are not counts.
 * Source   the generator of TorchRL's `CountdownEnv`.
 *
 * @example
 * countdownTasks(keyFromSeed(1), { numCount: 3 }).size // 'endless'
 */
export const countdownTasks = (key: Key, given: CountdownTaskOptions = {}): TaskSource<RowTask<CountdownRow>> => {
  checkOptions('countdownTasks', given, COUNTDOWN_TASKS_OPTIONS)
  const { numCount = 4, maxNumber = 100, maxTarget = 1000 } = given

  const options = { numCount, maxNumber, maxTarget }
  checkSizes(options)
  return endlessTasks('countdown', (index) => {
    const row = drawPuzzle(child(key, index), options)
    return {
      id: `countdown-${index}`,
      query: `Using the numbers ${row.numbers.join(', ')}, write an expression that equals ${row.target}. Use + - * / and parentheses, and each number at most once.`,
      answer: answerOf(row),
      row,
    }
  })
}

/**
 * Returns the error of an expression for a goal; undefined if it is right. Only `+ - * /`,
 * parentheses and the given numbers are allowed, each number at most as often as it is given. The
 * value is exact.
 *
 * @example
 * countdownProblem('4 * 6 * 1', { target: 24, numbers: [4, 6] }) // 'the number 1 is not given so often'
 */
export const countdownProblem = (expression: string, { target, numbers }: CountdownGoal): string | undefined => {
  const parsed = parseArithmetic(expression, { operators: ['+', '-', '*', '/'], numbers: 'integer', signs: 'refuse' })
  if (E.isLeft(parsed)) return parsed.left.reason
  const left = numbers.map(String)
  for (const literal of literalsOf(parsed.right)) {
    const at = left.indexOf(literal)
    if (at < 0) return `the number ${literal} is not given so often`
    left.splice(at, 1)
  }
  const value = exactValue(parsed.right)
  if (E.isLeft(value)) return value.left.reason
  const { numerator, denominator } = value.right
  const isRight = denominator === 1n && numerator === BigInt(target)
  return isRight ? undefined : `the value is ${numerator}${denominator === 1n ? '' : `/${denominator}`}, not ${target}`
}

/**
 * Scores a reply by the expression in its first answer block: `correctReward` if it reaches the
 * target by the rules (`countdownProblem`), `formatReward` if not, 0 without a block. The parts are
 * `answer`, `think` and `right`.
 *
 * Errors   `score` throws Error if the task's answer is not a goal (`countdownGoal`).
 * Source   TorchRL `CountdownRewardParser`, which evaluates Python and accepts powers,
 *          concatenation and decimals.
 *
 * @example
 * countdownReward().partNames // ['answer', 'think', 'right']
 */
export const countdownReward = (options: AnswerRewardOptions = {}): AnswerReward => {
  checkOptions('countdownReward', options, COUNTDOWN_REWARD_OPTIONS)
  return {
    name: 'countdown',
    partNames: ANSWER_PARTS,
    range: answerRange(options),
    score: (answered) => {
      const goal = countdownGoal(answered.task.answer)
      if (E.isLeft(goal)) throw new Error(`countdownReward: task ${answered.task.id}: ${goal.left.reason}`)
      const expression = blockOf(answerIn(answered), 'answer')
      const isRight = expression !== '' && countdownProblem(expression, goal.right) === undefined
      return answerScore(answered, expression === '' ? 'none' : isRight ? 'right' : 'wrong', options)
    },
  }
}
