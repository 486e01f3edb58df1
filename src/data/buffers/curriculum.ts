/** Which tasks to draw next: those that the policy solves sometimes teach most. */
import { Map as ImmutableMap } from 'immutable'
import { type Key, uniform } from '../../core/key.js'
import { aNumber, checkOptions } from '../../core/options.js'

export interface CurriculumOptions {
  /** How fast old results are forgotten: the share of a new one in the mean, above 0 and at most 1. Default 0.3. */
  readonly rate?: number
  /** The least weight of a task, from 0 to 1: what is always or never solved is tried again now and then. Default 0.05. */
  readonly floor?: number
}

/** What is known of a task. */
export interface TaskRecord {
  /** Exponential mean of its success, from 0 to 1. */
  readonly success: number
  /** How many results there were. */
  readonly seen: number
}

/** Success by task: a value. */
export interface Curriculum extends Required<CurriculumOptions> {
  readonly tasks: ImmutableMap<string, TaskRecord>
}

/**
 * A curriculum that knows of no task.
 *
 * Errors   throws RangeError with all settings that are wrong.
 *
 * @example
 * taskWeight(curriculum(), 'a task') // 1
 */
export const curriculum = (options: CurriculumOptions = {}): Curriculum => {
  checkOptions('curriculum', options, { rate: aNumber, floor: aNumber })
  const { rate = 0.3, floor = 0.05 } = options

  const problems = [
    ...(rate > 0 && rate <= 1 ? [] : [`rate must be above 0 and at most 1, got ${rate}`]),
    ...(floor >= 0 && floor <= 1 ? [] : [`floor must be from 0 to 1, got ${floor}`]),
  ]
  if (problems.length > 0) throw new RangeError(`curriculum: ${problems.join('; ')}`)
  return { rate, floor, tasks: ImmutableMap() }
}

/**
 * The curriculum after a result of a task: `s_n = (1 - a_n) s_(n-1) + a_n success`, where `a_n = rate / (1 - (1 - rate)^n)`, so that the first
 * results are a plain mean and no start value has a say.
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
 * How much a task is wanted: `max(floor, 4 s (1 - s))`, 1 where half of the rollouts succeed; 1 for a task that was never tried.
 *
 * Source   the variance of the reward, as in "learnability": Rutherford et al. 2024, arXiv:2408.15099.
 *
 * @example
 * taskWeight(observe(curriculum(), 'a', 0.5), 'a') // 1
 */
export const taskWeight = ({ floor, tasks }: Curriculum, task: string): number => {
  const known = tasks.get(task)
  return known === undefined ? 1 : Math.max(floor, 4 * known.success * (1 - known.success))
}

/** How many tasks, and where the randomness comes from. */
export interface TaskDraw {
  readonly count: number
  readonly key: Key
}

/**
 * Draws different tasks, one after the other, each with a probability in proportion to its weight among those that are left. Tasks of weight 0
 * come only when no others are left.
 *
 * Errors   throws RangeError unless `count` is a natural number and at most the number of tasks.
 * Effects  none. A task's luck depends on the key and its place in the list, so that results of others change nothing about it.
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
