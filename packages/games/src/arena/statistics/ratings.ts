/** Ratings of players from comparisons: the model of Bradley and Terry on the scale of Elo. */
import type { Interval } from '@tandem-rl/base'
import { Z95 } from './intervals.js'
import { groupBy, type PairScore } from './outcomes.js'

/** The rating of a player. The mean over all players is 1500. */
export interface Rating extends Interval {
  readonly name: string
}

/** Elo points for one natural logarithm of odds. */
const SCALE = 400 / Math.LN10

/** The mean of all ratings. */
const CENTER = 1500

/**
 * The standard deviation of the prior, in Elo points: weak, so that perfect records have finite
 * ratings.
 */
const PRIOR = 800

type Matrix = readonly (readonly number[])[]

/** Inverts a symmetric, positive definite matrix by elimination. */
const inverse = (matrix: Matrix): Matrix => {
  const size = matrix.length
  const rows = matrix.map((row, i) => [...row, ...Array.from({ length: size }, (_, j) => (i === j ? 1 : 0))])
  for (let at = 0; at < size; at++) {
    const pivot = rows[at]![at]!
    rows[at] = rows[at]!.map((value) => value / pivot)
    for (let other = 0; other < size; other++) {
      const factor = rows[other]![at]!
      if (other !== at && factor !== 0)
        rows[other] = rows[other]!.map((value, column) => value - factor * rows[at]![column]!)
    }
  }
  return rows.map((row) => row.slice(size))
}

const times = (matrix: Matrix, vector: readonly number[]): readonly number[] =>
  matrix.map((row) => row.reduce((sum, value, i) => sum + value * vector[i]!, 0))

const dot = (a: readonly number[], b: readonly number[]): number => a.reduce((sum, value, i) => sum + value * b[i]!, 0)

/** A comparison by the indexes of the players. */
interface Comparison {
  readonly a: number
  readonly b: number
  readonly score: number
}

const expected = (strengths: readonly number[], { a, b }: Comparison): number =>
  1 / (1 + Math.exp(strengths[b]! - strengths[a]!))

/** The gradient of the log-likelihood of some comparisons. */
const gradientOf = (strengths: readonly number[], comparisons: readonly Comparison[]): readonly number[] => {
  const gradient = strengths.map(() => 0)
  for (const comparison of comparisons) {
    const surprise = comparison.score - expected(strengths, comparison)
    gradient[comparison.a]! += surprise
    gradient[comparison.b]! -= surprise
  }
  return gradient
}

/** The information of the comparisons and of the prior. */
const informationOf = (strengths: readonly number[], comparisons: readonly Comparison[], prior: number): Matrix => {
  const information = strengths.map((_, i) => strengths.map((_other, j) => (i === j ? prior : 0)))
  for (const comparison of comparisons) {
    const { a, b } = comparison
    const chance = expected(strengths, comparison)
    const weight = chance * (1 - chance)
    information[a]![a]! += weight
    information[b]![b]! += weight
    information[a]![b]! -= weight
    information[b]![a]! -= weight
  }
  return information
}

/**
 * Computes ratings with 95 % intervals from comparisons. A draw counts as half a win.
 *
 * The strengths maximize the likelihood of Bradley and Terry with a weak normal prior (standard
 * deviation 800 points). The interval of a player is for its difference to the mean of all. It uses
 * the larger one of two variances: that of the model, and the robust one over rounds, because games
 * of a round share their chance.
 *
 * Source   Bradley and Terry 1952, "Rank analysis of incomplete block designs"; Liang and Zeger
 *          1986 for the robust variance.
 *
 * @example
 * const score = { a: 'x', b: 'y', score: 1, round: '1' }
 * ratingsOf([score]).map(({ name }) => name) // ['x', 'y']
 */
export const ratingsOf = (scores: readonly PairScore[]): readonly Rating[] => {
  const names = [...new Set(scores.flatMap(({ a, b }) => [a, b]))]
  const index = new Map(names.map((name, i) => [name, i]))
  const rounds = [...groupBy(scores, ({ round }) => round).values()].map((group) =>
    group.map(({ a, b, score }): Comparison => ({ a: index.get(a)!, b: index.get(b)!, score })),
  )
  const comparisons = rounds.flat()
  const prior = (SCALE / PRIOR) ** 2
  let strengths: readonly number[] = names.map(() => 0)
  for (let step = 0; step < 50; step++) {
    const slope = gradientOf(strengths, comparisons).map((value, i) => value - prior * strengths[i]!)
    const change = times(inverse(informationOf(strengths, comparisons, prior)), slope)
    strengths = strengths.map((value, i) => value + Math.max(-2, Math.min(2, change[i]!)))
    if (change.every((value) => Math.abs(value) < 1e-10)) break
  }
  const covariance = inverse(informationOf(strengths, comparisons, prior))
  const gradients = rounds.map((round) => gradientOf(strengths, round))
  const mean = strengths.reduce((sum, value) => sum + value, 0) / names.length
  return names
    .map((name, i): Rating => {
      const contrast = names.map((_, j) => (i === j ? 1 : 0) - 1 / names.length)
      const direction = times(covariance, contrast)
      const robust = gradients.reduce((sum, gradient) => sum + dot(gradient, direction) ** 2, 0)
      const margin = Z95 * SCALE * Math.sqrt(Math.max(dot(contrast, direction), robust))
      const estimate = CENTER + SCALE * (strengths[i]! - mean)
      return { name, estimate, low: estimate - margin, high: estimate + margin }
    })
    .sort((a, b) => b.estimate - a.estimate)
}
