import type { HistoryPrompt, TokenPrompt } from '../../data/policy.js'
import type { Task } from '../../data/task.js'
import type { UpdateMetrics } from '../metrics/records.js'
import type { RatedEntries } from '../parts/rater.js'
import type { BuildContext } from '../parts/recipe.js'
import { type AnyRun, type DataRunParts, dataRun, environmentRun, type NoEntries, type RunParts } from '../parts/run.js'
import { type AgentRunParts, agentRun } from './agentRun.js'
import { modelRun, type PolicyRunParts } from './modelRun.js'
import type { PolicyRun, RunPlan } from './policyParts.js'

/**
 * Combines the parts of a run and checks that they fit. The parts are
 *
 * - those of `grpoParts`: settings, a model and its environment. The run samples the model in this
 *   process, on a thread of its own (`sampling.maxLag` above 0) or through `sampler`; adds length
 *   and KL penalties to rewards; estimates its memory; and exports the weights. With `agent`, the
 *   user's own program plays the `tasks` against a server of the model. With `context.training`, a
 *   server trains and samples;
 * - an environment, a policy, an advantage and a learner;
 * - a batch source and a learner.
 *
 * The run owns its parts: `train` closes policy and learner at the end.
 *
 * Errors   throws RangeError, with all reasons, if settings contradict each other, the advantage's
 *          group size differs from the environment's, the policy does not accept weights and has no
 *          updater, or two evaluators have the same name; FailureError if a run of settings is
 *          estimated to need more memory than the machine has.
 * Effects  a run of settings holds the model's weights until it is closed.
 * Source   TorchRL's GRPO recipe, which wires the parts in a script.
 *
 * @example
 * typeof defineRun // 'function'
 */
export const defineRun: {
  <T extends Task>(parts: AgentRunParts<T> & RunPlan, context?: BuildContext): Promise<PolicyRun>
  <O extends HistoryPrompt>(parts: PolicyRunParts<O> & RunPlan, context?: BuildContext): Promise<PolicyRun>
  <O extends TokenPrompt, M extends UpdateMetrics, Added = NoEntries, Rated extends RatedEntries = NoEntries>(
    parts: RunParts<O, Added, M, Rated>,
  ): AnyRun
  <B, M extends UpdateMetrics, Rated extends RatedEntries = NoEntries>(parts: DataRunParts<B, M, Rated>): AnyRun
} = (parts: object, context: BuildContext = {}): never => {
  const run = (): object => {
    if ('agent' in parts) return agentRun(parts as AgentRunParts<Task> & RunPlan, context) // by the overloads, as below
    if ('settings' in parts) return modelRun(parts as PolicyRunParts<HistoryPrompt> & RunPlan, context)
    if ('data' in parts) return dataRun(parts as DataRunParts<unknown, UpdateMetrics>)
    return environmentRun(parts as RunParts<TokenPrompt, never, UpdateMetrics>)
  }
  return run() as never // as the overloads have it
}
