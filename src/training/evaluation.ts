/** Evaluators: what a run is measured on, by name, each with an environment and a policy of its own. */
import { LLMCollector } from '../collectors/llmCollector.js'
import { orThrow } from '../core/failure.js'
import { child, type Key } from '../core/key.js'
import { aFunction, aNumber, aRecord, aText, checkOptions, type OptionKinds, oneOf, refuse } from '../core/options.js'
import { lastMessage, textOf } from '../data/history.js'
import type { Policy, TokenAction, TokenPrompt } from '../data/policy.js'
import type { TensorDict } from '../data/tensorDict/tensorDict.js'
import type { Env } from '../envs/env.js'
import { historyAfter, type TrajectoryNumbers, textAt, trajectoryNumbers } from './batchMetrics.js'

/** How one trajectory of an evaluation went. */
export interface EvaluationResult {
  /** The task, as the environment names it: trajectories with one name are tries of one task. */
  readonly taskId: string
  readonly query: string
  /** What the policy wrote last. */
  readonly completion: string
  /** The number that the evaluator's score is made of: 1 for success, 0 for none, or a return. */
  readonly score: number
  readonly parts: Readonly<Record<string, number>>
  readonly tokens: number
  readonly turns: number
}

/** Results, as they come. */
export interface EvaluationPart {
  readonly results: readonly EvaluationResult[]
  /** Tasks that are done, and of how many. */
  readonly done: number
  readonly tasks: number
}

/** What a score is. `success`: a share, the higher the better. `return`: the higher the better. `loss`: the lower the better. */
export type Measure = 'success' | 'return' | 'loss'

/** Scores by name. */
export type Scores = Readonly<Record<string, number>>

/** Measures a policy. */
export interface Evaluator {
  readonly name: string
  /** The score that chooses the best checkpoint, and that reports draw as the curve. */
  readonly score: string
  /** What that score is. */
  readonly measure: Measure
  readonly tasks: number
  /** Equal policies and keys give equal results. Errors: throws FailureError where environment or policy fail. */
  readonly run: (key: Key) => AsyncGenerator<EvaluationPart>
  readonly scoresOf: (results: readonly EvaluationResult[]) => Scores
}

/** Where an evaluation stands: the environment of `groups` tasks from task `start` on. */
export interface EvaluationContext {
  readonly groups: number
  readonly start: number
}

export interface EvaluatorOptions<O extends TokenPrompt> {
  /** Default `held out`. */
  readonly name?: string
  /** The environment of some tasks; every task has `tries` elements in it. */
  readonly env: (context: EvaluationContext) => Env<O, TokenAction>
  /** Usually greedy: `policy.withSampling({ temperature: 0 })`. */
  readonly policy: Policy<TokenPrompt, TokenAction>
  /** Tasks `0 .. tasks - 1`. */
  readonly tasks: number
  /** Tasks that are played at a time. Default 200. */
  readonly batch?: number
  /** Trajectories of each task, for `pass@k` and `mean@k`. Default 1. */
  readonly tries?: number
  /** What is measured: whether a trajectory succeeded, or what it earned. Default `success`. */
  readonly measure?: Exclude<Measure, 'loss'>
}

const resultOf =
  (batch: TensorDict, measure: 'success' | 'return') =>
  ({ rows, parts, tokens = 0, groupId, trajectoryId, ...numbers }: TrajectoryNumbers): EvaluationResult => {
    const last = rows.at(-1)!
    const history = historyAfter(batch, last)
    const message = history && lastMessage(history)
    const own = message?.role === 'assistant' ? message : history?.messages.findLast(({ role }) => role === 'assistant')
    if (measure === 'success' && parts.success === undefined)
      throw new RangeError("evaluator: the environment writes no 'success': measure the return")
    return {
      taskId: textAt(batch, ['taskId'], rows[0]!) ?? groupId ?? trajectoryId,
      query: textAt(batch, ['query'], rows[0]!) ?? '',
      completion: own === undefined ? (textAt(batch, ['text', 'response'], last) ?? '') : textOf(own),
      score: measure === 'success' ? parts.success! : numbers.return,
      parts,
      tokens,
      turns: rows.length,
    }
  }

const mean = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0) / Math.max(1, numbers.length)

/** Scores of tries, task by task. */
const byTask = (results: readonly EvaluationResult[]): readonly (readonly number[])[] => {
  const tasks = new Map<string, number[]>()
  for (const { taskId, score } of results) tasks.set(taskId, [...(tasks.get(taskId) ?? []), score])
  return [...tasks.values()]
}

/** The names of the scores: `accuracy` for one try of success, `return` for one of returns, else `mean@k` and `pass@k`. */
const namesOf = (tries: number, measure: 'success' | 'return'): readonly string[] => {
  if (tries === 1) return [measure === 'success' ? 'accuracy' : 'return']
  return measure === 'success' ? [`pass@${tries}`, `mean@${tries}`] : [`best@${tries}`, `mean@${tries}`]
}

const EVALUATOR_OPTIONS: OptionKinds<EvaluatorOptions<never>> = {
  name: aText,
  env: aFunction,
  policy: aRecord,
  tasks: aNumber,
  batch: aNumber,
  tries: aNumber,
  measure: oneOf('return', 'success'),
}

/**
 * Makes an evaluator that plays tasks and counts what succeeded.
 *
 * With one try of each task its score is `accuracy` (or `return`); with `k` tries there are `pass@k`, the share of tasks with a try that
 * succeeded, and `mean@k`. Means of reward parts, `completionTokens` and `turns` come with them.
 *
 * Errors   throws RangeError for counts that are not positive. `run` throws FailureError where environment or policy fail, and RangeError
 *          for an environment without `success` where that is measured.
 * Source   pass@k: Chen et al. 2021, arXiv:2107.03374; with all `k` tries counted the estimator is the share itself.
 */
export const evaluator = <O extends TokenPrompt>(given: EvaluatorOptions<O>): Evaluator => {
  checkOptions('evaluator', given, EVALUATOR_OPTIONS)
  const { name = 'held out', batch = 200, tries = 1, measure = 'success', ...options } = given

  const { env, policy, tasks } = options
  const counted = { tasks, batch, tries }
  refuse(
    'evaluator',
    Object.entries(counted).map(
      ([what, n]) => !(Number.isInteger(n) && n >= 1) && `${what} must be a positive integer, got ${n}`,
    ),
  )
  const [score = 'accuracy', other] = namesOf(tries, measure)
  return {
    ...{ name, score, measure, tasks },
    run: async function* (key) {
      for (let start = 0; start < tasks; start += batch) {
        const groups = Math.min(batch, tasks - start)
        const collector = LLMCollector({ env: env({ groups, start }), policy, key: child(key, start) })
        using owned = orThrow(await collector.collect(collector.start)()).batch
        const td = owned.value as unknown as TensorDict // read by names
        yield { results: trajectoryNumbers(td).map(resultOf(td, measure)), done: start + groups, tasks }
      }
    },
    scoresOf: (results) => {
      if (results.length === 0) throw new RangeError('evaluator: there are no results')
      const groups = byTask(results)
      const parts = Object.keys(results[0]!.parts).filter((part) => part !== 'success' || measure !== 'success')
      return {
        [score]: tries === 1 ? mean(results.map((each) => each.score)) : mean(groups.map((each) => Math.max(...each))),
        ...(other !== undefined && { [other]: mean(results.map((each) => each.score)) }),
        ...Object.fromEntries(parts.map((part) => [part, mean(results.map((each) => each.parts[part] ?? 0))])),
        completionTokens: mean(results.map(({ tokens }) => tokens)),
        turns: mean(results.map(({ turns }) => turns)),
      }
    },
  }
}
