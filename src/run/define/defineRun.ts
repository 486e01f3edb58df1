import type { Task } from '@tandem-rl/text'
import type { Absent, Fits, Needs, Without } from '../../data/needs.js'
import type { HistoryPrompt, TokenPrompt } from '../../data/policy.js'
import type { Learner } from '../../learners/learner.js'
import type { UpdateMetrics } from '../metrics/records.js'
import type { RatedEntries } from '../parts/rater.js'
import type { BuildContext } from '../parts/recipe.js'
import {
  type AnyRun,
  type DataParts,
  type DataRunParts,
  dataRun,
  type EnvironmentParts,
  environmentRun,
  type NoEntries,
  type RunEntries,
  type RunParts,
  type WithEntries,
} from '../parts/run.js'
import { type AgentRunParts, agentRun } from './agentRun.js'
import { modelRun, type PolicyRunParts } from './modelRun.js'
import type { PolicyRun, PolicyRunSettings, RunPlan } from './policyParts.js'

/** The parts of every run with settings. `S` is the type of the settings. */
type Planned<S> = RunPlan & { readonly settings: S } & Without<'policy' | 'data'>

/** The parts of a run in an environment with states `E`. */
interface EnvironmentRunParts<E, Added, B, M, Rated extends RatedEntries>
  extends EnvironmentParts<E, Added, Rated>,
    Without<'settings' | 'data'> {
  readonly learner: Learner<B, M> & Fits<Absent<B, RunEntries<E, NoInfer<Added>, NoInfer<Rated>>>>
}

/** The parts of a run of a batch source with the entries `D`. */
interface SourceRunParts<D, B, M, Rated extends RatedEntries>
  extends DataParts<D, Rated>,
    Without<'settings' | 'policy'> {
  readonly learner: Learner<B, M> & Fits<Absent<B, WithEntries<D, NoInfer<Rated>>>>
}

/**
 * The parts of a run. `S` are its settings, `O` or `E` the states of its environment, `D` the
 * entries of its batch source, `B` those that its learner reads. `What` names the required parts:
 * it is part of messages only.
 */
type Parts<What, S, T extends Task, O extends HistoryPrompt, E, Added, D, B, M, Rated extends RatedEntries> =
  | (AgentRunParts<T> & Planned<S>)
  | (PolicyRunParts<O> & Planned<S>)
  | EnvironmentRunParts<E, Added, B, M, Rated>
  | SourceRunParts<D, B, M, Rated>
  | (What & never)

type RunOf<S> = [S] extends [never] ? AnyRun : Promise<PolicyRun>

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
export const defineRun = <
  T extends Task,
  O extends HistoryPrompt,
  E extends Needs<Absent<TokenPrompt, E>, TokenPrompt>,
  D,
  B,
  M extends UpdateMetrics,
  S extends PolicyRunSettings = never,
  Added = NoEntries,
  Rated extends RatedEntries = NoEntries,
>(
  parts: Parts<'env, policy and learner; data and learner; or grpoParts', S, T, O, E, Added, D, B, M, Rated>,
  context: BuildContext = {},
): RunOf<S> => {
  const run = (): object => {
    if ('agent' in parts) return agentRun(parts as unknown as AgentRunParts<Task> & RunPlan, context) // by the union of parts, as below
    if ('settings' in parts) return modelRun(parts as unknown as PolicyRunParts<HistoryPrompt> & RunPlan, context)
    if ('data' in parts) return dataRun(parts as unknown as DataRunParts<unknown, UpdateMetrics>)
    return environmentRun(parts as unknown as RunParts<TokenPrompt, never, UpdateMetrics>)
  }
  return run() as RunOf<S> // a run of settings is a promise
}
