/** Evaluates the user's agent: the same program on held-out tasks. */
import { child, orThrow } from '@tandem-rl/base'
import { type AgentAttempt, lastMessage, type Task, textOf } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { rowInputs } from '../../data/inputs.js'
import type { TaskSource } from '../../data/task.js'
import {
  type EvaluationResult,
  type Evaluator,
  type EvaluatorOptions,
  evaluatedTasks,
  HELD_OUT,
  scoring,
} from '../metrics/evaluation.js'
import { lastConversation } from './agentReward.js'
import { type AttemptRules, type FailedAttempt, type ScoredAttempt, scoredAttempt } from './agentSessions.js'

export interface AgentEvaluatorOptions<T extends Task>
  extends Pick<EvaluatorOptions<never>, 'name' | 'tasks' | 'tries' | 'batch' | 'measure' | 'sharedTasks'> {
  readonly source: TaskSource<T>
  readonly temperature: number
  readonly maxNewTokens: number
  /** Opens the agent on first use. */
  readonly rules: () => Promise<AttemptRules<T>>
}

const resultOf = ({ session, task }: ScoredAttempt, measure: 'success' | 'return'): EvaluationResult => {
  const { total, parts } = session.reward! // it is scored
  if (measure === 'success' && parts.success === undefined)
    throw new RangeError("evaluator: the reward has no part 'success': set measure to 'return'")
  const message = lastMessage(lastConversation(session))
  return {
    taskId: task.id,
    query: task.query,
    completion: message === undefined ? '' : textOf(message),
    score: measure === 'success' ? parts.success! : total,
    parts,
    tokens: session.calls.reduce((sum, { completions }) => sum + (completions[0]?.ids.length ?? 0), 0),
    turns: session.calls.length,
  }
}

const failureOf = ({ task, reason }: FailedAttempt) =>
  ({ _tag: 'AgentFailure', reason: `task ${task}: ${reason}` }) as const

/** Counts evaluations of this process: sessions of one evaluation are not those of another. */
const countUp = (): (() => number) => {
  let count = 0
  return () => count++
}

/**
 * Makes an evaluator that plays tasks with an agent. Attempts whose last try fails are left out.
 *
 * Errors   `run` throws FailureError if all attempts of a part fail.
 */
export const agentEvaluator = <T extends Task>(options: AgentEvaluatorOptions<T>): Evaluator => {
  const { name = HELD_OUT, tries = 1, batch = 200, measure = 'return', sharedTasks } = options
  const tasks = evaluatedTasks(options.source, options.tasks)
  const { source, temperature, maxNewTokens, rules } = options
  const nextRound = countUp()
  return {
    name,
    measure,
    tasks,
    source,
    ...(sharedTasks && { sharedTasks }),
    ...scoring(tries, measure),
    inputs: () => rowInputs(source),
    run: async function* (key) {
      const round = nextRound()
      const opened = await rules()
      for (let start = 0; start < tasks; start += batch) {
        const count = Math.min(batch, tasks - start)
        const attempts = Array.from({ length: count * tries }, (_, i): AgentAttempt<T> => {
          const index = start + Math.floor(i / tries)
          return {
            id: `${name}-${round}-${index}-${i % tries}`.replace(/[^\w.-]/g, '_'),
            group: String(index),
            task: orThrow(source.at(index)),
            temperature,
            maxNewTokens,
            key: child(child(key, index), i % tries),
          }
        })
        const played = await Promise.all(attempts.map((attempt) => scoredAttempt(attempt, opened)))
        const scored = played.flatMap((each) => (E.isRight(each) ? [each.right] : []))
        await opened.agent.drop(scored.map(({ session }) => session.id))
        const [first] = played
        if (scored.length === 0 && first !== undefined && E.isLeft(first)) orThrow(E.left(failureOf(first.left)))
        yield { results: scored.map((each) => resultOf(each, measure)), done: start + count, tasks }
      }
    },
  }
}
