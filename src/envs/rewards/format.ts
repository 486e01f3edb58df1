/** The format of an answer: blocks in tags, each once, in order, with nothing outside. */
import { checkOptions } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import { FORMAT_REWARD_OPTIONS } from '../optionKinds.js'
import { replyOf } from './reply.js'
import type { Reward } from './reward.js'

/**
 * A rule of the format. `blocks`: each block occurs exactly once, opened and closed. `order`: each
 * block starts after the end of the previous one. `outside`: there is only white space outside.
 */
export type FormatRule = (typeof FORMAT_RULES)[number]

export const FORMAT_RULES = ['blocks', 'order', 'outside'] as const

export interface FormatScoreOptions {
  /** The tags of the blocks, in order. Default think, answer. */
  readonly blocks?: readonly string[]
  /** The rules that count. Default all. */
  readonly rules?: readonly FormatRule[]
  /** Penalty for breaking all rules, in reward units; each rule costs the same. Default 1. */
  readonly factor?: number
  /** A marker that is allowed at the very end, such as that of the end of a turn. Default none. */
  readonly endOfTurn?: string
}

/** The rules that are kept, and the penalty of the broken ones: 0 or less, in reward units. */
export interface FormatScore {
  readonly kept: Readonly<Record<FormatRule, boolean>>
  readonly penalty: number
}

/**
 * Checks the options and adds the defaults. Throws RangeError that lists all invalid options;
 * `name` is the function that was called.
 */
export const checkFormat = (name: string, options: FormatScoreOptions): Required<FormatScoreOptions> => {
  const { blocks = ['think', 'answer'], rules = FORMAT_RULES, factor = 1, endOfTurn = '' } = options
  const isName = (tag: string): boolean => /^[^<>/\s]+$/.test(tag)
  const problems = [
    ...(blocks.length > 0 && blocks.every(isName) && new Set(blocks).size === blocks.length
      ? []
      : [`blocks must be different names of tags, at least one, got [${blocks.join(', ')}]`]),
    ...(rules.length > 0 && rules.every((rule) => FORMAT_RULES.includes(rule)) && new Set(rules).size === rules.length
      ? []
      : [`rules must be different ones of ${FORMAT_RULES.join(', ')}, at least one, got [${rules.join(', ')}]`]),
    ...(factor >= 0 && Number.isFinite(factor) ? [] : [`factor must not be negative, got ${factor}`]),
  ]
  if (problems.length > 0) throw new RangeError(`${name}: ${problems.join('; ')}`)
  return { blocks, rules, factor, endOfTurn }
}

type Place = readonly [start: number, end: number]

/**
 * Returns the place of the only block of a tag, including its tags; undefined if it is missing or a
 * tag occurs twice.
 */
const onlyBlock = (text: string, tag: string): Place | undefined => {
  const [opening, closing] = [`<${tag}>`, `</${tag}>`]
  const [start, close] = [text.indexOf(opening), text.indexOf(closing)]
  const isOnce = start >= 0 && start === text.lastIndexOf(opening) && close === text.lastIndexOf(closing)
  return isOnce && close >= start + opening.length ? [start, close + closing.length] : undefined
}

/** Returns true if there is only white space outside some places. */
const isBare = (text: string, places: readonly Place[]): boolean => {
  let [rest, at] = ['', 0]
  for (const [start, end] of places.toSorted(([a], [b]) => a - b)) {
    rest += text.slice(at, Math.max(at, start))
    at = Math.max(at, end)
  }
  return (rest + text.slice(at)).trim() === ''
}

/**
 * Scores the format of a completion. A rule that cannot be checked, because a block is missing,
 * counts as broken.
 *
 * With `n` rules, `b` of them broken, the penalty is `-factor b / n`.
 *
 * Errors   throws RangeError that lists all invalid options.
 * Cost     linear in the text, for each block.
 *
 * @example
 * formatScore('<think>2 + 2</think><answer>4</answer> So.').kept // { blocks: true, order: true, outside: false }
 */
export const formatScore = (completion: string, options: FormatScoreOptions = {}): FormatScore => {
  const { blocks, rules, factor, endOfTurn } = checkFormat('formatScore', options)
  const text = completion.endsWith(endOfTurn) ? completion.slice(0, completion.length - endOfTurn.length) : completion
  const places = blocks.map((tag) => onlyBlock(text, tag)).filter((place) => place !== undefined)
  const isWhole = places.length === blocks.length
  const kept = {
    blocks: isWhole,
    order: isWhole && places.every(([start], i) => i === 0 || start >= places[i - 1]![1]),
    outside: isWhole && isBare(text, places),
  }
  const broken = rules.filter((rule) => !kept[rule]).length
  return { kept, penalty: broken === 0 ? 0 : (-factor * broken) / rules.length }
}

/**
 * Makes a reward of the format of the last answer: from 0 if all rules are broken to `factor` if
 * all are kept. Its parts are the rules.
 *
 * Errors   throws RangeError that lists all invalid options.
 *
 * @example
 * formatReward({ factor: 0.5 }).range // [0, 0.5]
 */
export const formatReward = (options: FormatScoreOptions = {}): Reward<Task, FormatRule> => {
  checkOptions('formatReward', options, FORMAT_REWARD_OPTIONS)
  const { rules, factor } = checkFormat('formatReward', options)
  return {
    name: 'format',
    partNames: rules,
    range: [0, factor],
    score: ({ history }) => {
      const { kept, penalty } = formatScore(replyOf({ history }), options)
      const parts = Object.fromEntries(rules.map((rule) => [rule, kept[rule] ? 1 : 0]))
      return { reward: factor + penalty, success: rules.every((rule) => kept[rule]), parts }
    },
  }
}
