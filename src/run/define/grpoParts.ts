/** The parts of a run that settings determine. */
import type { Task } from '@tandem-rl/text'
import type { Without } from '../../data/needs.js'
import type { HistoryPrompt } from '../../data/policy.js'
import type { AgentRunParts } from './agentRun.js'
import { advantageOf, lossOf } from './choices.js'
import type { PolicyRunParts } from './modelRun.js'
import type { PolicyRunSettings, RunPlan } from './policyParts.js'

/** The parts of a run. `What` names those that are required: it is part of messages only. */
type TrainedParts<What, O extends HistoryPrompt, T extends Task> =
  | (PolicyRunParts<O> & Without<'agent'>)
  | (AgentRunParts<T> & Without<'env' | 'segments'>)
  | (What & never)

/**
 * Adds the parts that settings determine to those of a run: the loss and the advantage of the
 * algorithm, and the settings of everything else. `defineRun` takes the result, in which any part
 * can be replaced.
 *
 * Errors   throws RangeError if settings contradict each other.
 *
 * @example
 * typeof grpoParts // 'function'
 */
export const grpoParts = <O extends HistoryPrompt, T extends Task = never>(
  settings: PolicyRunSettings,
  parts: TrainedParts<'model and env, or model, agent and tasks', O, T>,
): ([T] extends [never] ? PolicyRunParts<O> : AgentRunParts<T>) & RunPlan => {
  const made = { ...parts, settings, loss: lossOf(settings), advantage: advantageOf(settings, parts.segments) }
  return made as unknown as ReturnType<typeof grpoParts<O, T>> // `parts` are those of an agent if `T` is a task
}
