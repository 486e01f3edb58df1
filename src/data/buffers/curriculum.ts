/**
 * A curriculum that prefers tasks that the policy solves sometimes, because these have the most
 * learning signal.
 */
import { checkOptions, type Key, uniform } from '@tandem-rl/base'
import { Map as ImmutableMap } from 'immutable'
import { CURRICULUM_OPTIONS } from '../optionKinds.js'

export interface CurriculumOptions {
  /**
   * The weight of a new result in the running mean, above 0 and at most 1. Larger values forget old
   * results faster. Default 0.3.
   */
  readonly rate?: number
  /**
   * The minimum weight of a task, from 0 to 1, so that tasks that are always or never solved are
   * still tried occasionally. Default 0.05.
   */
  readonly floor?: number
}

/** The statistics of a task. */
export interface TaskRecord {
  /** The exponential mean of its success, from 0 to 1. */
  readonly success: number
  /** The number of results. */
  readonly seen: number
}

/** The success of each task, as an immutable value. */
export interface Curriculum extends Required<CurriculumOptions> {
  readonly tasks: ImmutableMap<string, TaskRecord>
}

/**
 * Creates a curriculum without results.
 *
 * Errors   throws RangeError with all invalid settings.
 *
 * @example
 * taskWeight(curriculum(), 'a task') // 1
 */
export const curriculum = (options: CurriculumOptions = {}): Curriculum => {
  checkOptions('curriculum', options, CURRICULUM_OPTIONS)
  const { rate = 0.3, floor = 0.05 } = options

  const problems = [
    ...(rate > 0 && rate <= 1 ? [] : [`rate must be above 0 and at most 1, got ${rate}`]),
    ...(floor >= 0 && floor <= 1 ? [] : [`floor must be from 0 to 1, got ${floor}`]),
  ]
  if (problems.length > 0) throw new RangeError(`curriculum: ${problems.join('; ')}`)
  return { rate, floor, tasks: ImmutableMap() }
}

/**
 * Adds a result of a task: `s_n = (1 - a_n) s_(n-1) + a_n success`, where `a_n = rate / (1 - (1 -
 * rate)^n)`, so that the first results are a plain mean and the start value has no influence.
 *
 * Units    `success` is the share of a group that was solved, from 0 to 1.
 * Errors   throws RangeError for a success outside of 0 .. 1.
 * Effects  none.
 *
 * @example
 * observe(curriculum(), 'a', 0.5).tasks.get('a') // { success: 0.5, seen: 1 }
 */
export const observe = (state: Curriculum, task: string, success: number): Curriculum => {
  if (!(success >= 0 && success <= 1)) throw new RangeError(`observe: success must be from 0 to 1, got ${success}`)
  const { success: before, seen } = state.tasks.get(task, { success: 0, seen: 0 })
  const share = state.rate / (1 - (1 - state.rate) ** (seen + 1))
  const mean = Math.min(1, Math.max(0, before + share * (success - before)))
  return { ...state, tasks: state.tasks.set(task, { success: mean, seen: seen + 1 }) }
}

/**
 * Returns the sampling weight of a task: `max(floor, 4 s (1 - s))`, which is 1 if half of the
 * rollouts succeed, and 1 for a task that was never tried.
 *
 * Source   the variance of the reward, as in "learnability": Rutherford et al. 2024,
 *          arXiv:2408.15099.
 *
 * @example
 * taskWeight(observe(curriculum(), 'a', 0.5), 'a') // 1
 */
export const taskWeight = ({ floor, tasks }: Curriculum, task: string): number => {
  const known = tasks.get(task)
  return known === undefined ? 1 : Math.max(floor, 4 * known.success * (1 - known.success))
}

/** The number of tasks to draw, and the random key. */
export interface TaskDraw {
  readonly count: number
  readonly key: Key
}

/**
 * Draws distinct tasks one after the other, each with a probability proportional to its weight
 * among the remaining tasks. Tasks of weight 0 are drawn only when no others are left.
 *
 * Errors   throws RangeError unless `count` is a natural number and at most the number of tasks.
 * Effects  none. The random number of a task depends on the key and its index in the list, so
 *          results of other tasks do not change it.
 * Cost     O(n log n) for n tasks.
 * Source   Efraimidis and Spirakis 2006: the tasks of the smallest `-ln(u) / weight`.
 *
 * @example
 * drawTasks(curriculum(), ['a', 'b'], { count: 2, key: keyFromSeed(0) }).length // 2
 */
export const drawTasks = (state: Curriculum, tasks: readonly string[], { count, key }: TaskDraw): readonly string[] => {
  if (!Number.isSafeInteger(count) || count < 0 || count > tasks.length)
    throw new RangeError(`drawTasks: count must be a natural number up to ${tasks.length}, got ${count}`)
  return tasks
    .map((task, i) => ({ task, i, late: -Math.log1p(-uniform(key, i)) / taskWeight(state, task) }))
    .sort((a, b) => (a.late === b.late ? a.i - b.i : a.late - b.late))
    .slice(0, count)
    .map(({ task }) => task)
}
