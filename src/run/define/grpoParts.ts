/** The parts of a run that settings determine. */
import type { HistoryPrompt } from '../../data/policy.js'
import type { Task } from '../../data/task.js'
import type { SegmentRule } from '../../objectives/advantages/segments.js'
import type { AgentRunParts } from './agentRun.js'
import { advantageOf, lossOf } from './choices.js'
import type { PolicyRunParts } from './modelRun.js'
import type { PolicyRunSettings, RunPlan } from './policyParts.js'

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
export const grpoParts: {
  <T extends Task>(settings: PolicyRunSettings, parts: AgentRunParts<T>): AgentRunParts<T> & RunPlan
  <O extends HistoryPrompt>(settings: PolicyRunSettings, parts: PolicyRunParts<O>): PolicyRunParts<O> & RunPlan
} = <P extends object>(settings: PolicyRunSettings, parts: P & { readonly segments?: SegmentRule }): P & RunPlan => ({
  ...parts,
  settings,
  loss: lossOf(settings),
  advantage: advantageOf(settings, parts.segments),
})
