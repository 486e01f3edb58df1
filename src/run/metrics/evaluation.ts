/** Evaluators: named measurements of a run, each with its own environment and policy. */
import { checkOptions, child, type Key, orThrow, refuse } from '@tandem-rl/base'
import { lastMessage, textOf } from '@tandem-rl/text'
import { LLMCollector } from '../../collectors/llmCollector.js'
import type { WithInputs } from '../../data/inputs.js'
import type { Absent, Needs } from '../../data/needs.js'
import type { Policy, TokenAction, TokenPrompt } from '../../data/policy.js'
import type { IdentifiedRows } from '../../data/task.js'
import type { TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { Env } from '../../envs/base/env.js'
import { EVALUATOR_OPTIONS } from '../optionKinds.js'
import { historyAfter, type TrajectoryNumbers, textAt, trajectoryNumbers } from './batchMetrics.js'

/** The result of one trajectory of an evaluation. */
export interface EvaluationResult {
  /** The environment's id of the task. Trajectories with the same id are attempts at one task. */
  readonly taskId: string
  readonly query: string
  /** The last message of the policy. */
  readonly completion: string
  /** The number that the evaluator averages: 1 for success, 0 for failure, or a return. */
  readonly score: number
  readonly parts: Readonly<Record<string, number>>
  readonly tokens: number
  readonly turns: number
}

/** A part of the results, with the progress so far. */
export interface EvaluationPart {
  readonly results: readonly EvaluationResult[]
  /** Tasks done so far, and in total. */
  readonly done: number
  readonly tasks: number
}

/**
 * The kind of a score: `success` (a share) and `return`: higher is better; `loss`: lower is better.
 */
export type Measure = 'success' | 'return' | 'loss'

/** Scores by name. */
export type Scores = Readonly<Record<string, number>>

/** A named measurement of a policy. */
export interface Evaluator extends WithInputs {
  readonly name: string
  /** Name of the score that selects the best checkpoint and is plotted in reports. */
  readonly score: string
  /** The kind of that score. */
  readonly measure: Measure
  /** Number of evaluated tasks. */
  readonly tasks: number
  /** The tasks, if they come from a data set. */
  readonly source?: IdentifiedRows
  /** `allow`: the tasks may be trained on, too. Default `refuse`. */
  readonly sharedTasks?: 'refuse' | 'allow'
  /**
   * Equal policies and keys give equal results. Throws FailureError if environment or policy fails.
   */
  readonly run: (key: Key) => AsyncGenerator<EvaluationPart>
  readonly scoresOf: (results: readonly EvaluationResult[]) => Scores
}

/** The range of tasks for an environment: `groups` tasks, starting at task `start`. */
export interface EvaluationContext {
  readonly groups: number
  readonly start: number
}

export interface EvaluatorOptions<O extends TokenPrompt> {
  /** Default `held out`. */
  readonly name?: string
  /** Makes the environment of a range of tasks, with `tries` elements per task. */
  readonly env: (context: EvaluationContext) => Env<O, TokenAction>
  /** Usually greedy: `policy.withSampling({ temperature: 0 })`. */
  readonly policy: Policy<TokenPrompt, TokenAction>
  /** Number of tasks: `0 .. tasks - 1` are evaluated, or all tasks of a smaller data set. */
  readonly tasks: number
  /** Tasks played at a time. Default 200. */
  readonly batch?: number
  /** Trajectories per task, for `pass@k` and `mean@k`. Default 1. */
  readonly tries?: number
  /** `success` measures whether trajectories succeed, `return` their returns. Default `success`. */
  readonly measure?: Exclude<Measure, 'loss'>
  /** `refuse`: a run that also trains on the tasks is refused. Default `refuse`. */
  readonly sharedTasks?: 'refuse' | 'allow'
}

const resultOf =
  (batch: TensorDict, measure: 'success' | 'return') =>
  ({ rows, parts, tokens = 0, groupId, trajectoryId, ...numbers }: TrajectoryNumbers): EvaluationResult => {
    const last = rows.at(-1)!
    const history = historyAfter(batch, last)
    const message = history && lastMessage(history)
    const own = message?.role === 'assistant' ? message : history?.messages.findLast(({ role }) => role === 'assistant')
    if (measure === 'success' && parts.success === undefined)
      throw new RangeError("evaluator: the environment writes no 'success': set measure to 'return'")
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

/** Groups the scores by task. */
const byTask = (results: readonly EvaluationResult[]): readonly (readonly number[])[] => {
  const tasks = new Map<string, number[]>()
  for (const { taskId, score } of results) tasks.set(taskId, [...(tasks.get(taskId) ?? []), score])
  return [...tasks.values()]
}

/**
 * Returns the names of the scores: `accuracy` or `return` for one try, else `pass@k` (`best@k` for
 * returns) and `mean@k`.
 */
const namesOf = (tries: number, measure: 'success' | 'return'): readonly string[] => {
  if (tries === 1) return [measure === 'success' ? 'accuracy' : 'return']
  return measure === 'success' ? [`pass@${tries}`, `mean@${tries}`] : [`best@${tries}`, `mean@${tries}`]
}

/** Returns the scores of an evaluator, and the name of the first. */
export const scoring = (tries: number, measure: 'success' | 'return'): Pick<Evaluator, 'score' | 'scoresOf'> => {
  const [score = 'accuracy', other] = namesOf(tries, measure)
  return {
    score,
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

/** The default name of evaluators. */
export const HELD_OUT = 'held out'

/** Returns the number of tasks to evaluate: at most those of a finite source. */
export const evaluatedTasks = (source: IdentifiedRows | undefined, wanted: number): number =>
  source === undefined || source.size === 'endless' ? wanted : Math.min(wanted, source.size)

/**
 * Makes an evaluator that plays tasks and measures success or returns.
 *
 * With one try per task, the score is `accuracy` (or `return`). With `k` tries, the scores are
 * `pass@k`, the share of tasks with at least one success (for returns `best@k`, the mean best
 * return), and `mean@k`. Means of reward parts, `completionTokens` and `turns` are reported too.
 *
 * Errors   throws RangeError for counts that are not positive integers. `run` throws FailureError
 *          if environment or policy fails, and RangeError if success is measured and the
 *          environment writes no `success`.
 * Source   pass@k: Chen et al. 2021, arXiv:2107.03374. With all `k` tries counted, the estimator
 *          equals the share of solved tasks.
 */
export const evaluator = <O extends Needs<Absent<TokenPrompt, O>, TokenPrompt>>(
  given: EvaluatorOptions<O>,
): Evaluator => {
  checkOptions('evaluator', given, EVALUATOR_OPTIONS)
  const { name = HELD_OUT, batch = 200, tries = 1, measure = 'success', sharedTasks, ...options } = given

  const { env, policy, tasks: wanted } = options
  const counted = { tasks: wanted, batch, tries }
  refuse(
    'evaluator',
    Object.entries(counted).map(
      ([what, n]) => !(Number.isInteger(n) && n >= 1) && `${what} must be a positive integer, got ${n}`,
    ),
  )
  const { source } = env({ groups: 1, start: 0 })
  const tasks = evaluatedTasks(source, wanted)
  return {
    name,
    measure,
    tasks,
    ...scoring(tries, measure),
    ...(source && { source }),
    ...(sharedTasks && { sharedTasks }),
    inputs: () => env({ groups: 1, start: 0 }).inputs?.() ?? {},
    run: async function* (key) {
      for (let start = 0; start < tasks; start += batch) {
        const groups = Math.min(batch, tasks - start)
        const collector = LLMCollector({ env: env({ groups, start }), policy, key: child(key, start) })
        using owned = orThrow(await collector.collect(collector.start)()).batch
        const td = owned.value as unknown as TensorDict // read by names
        yield { results: trajectoryNumbers(td).map(resultOf(td, measure)), done: start + groups, tasks }
      }
    },
  }
}
