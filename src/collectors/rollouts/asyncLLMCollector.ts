import * as E from 'fp-ts/lib/Either.js'
import { FailureError } from '../../core/failure.js'
import type { TokenPrompt } from '../../data/policy.js'
import type { CollectedBatch } from '../llmCollector.js'
import { type RolloutRun, type RolloutRunOptions, rolloutRun } from './rolloutRun.js'
import { type AsyncLLMCollectorOptions, runRules } from './settings.js'

export interface AsyncLLMCollector<O> extends AsyncIterable<CollectedBatch<O>> {
  /** Begins a run, which draws nothing until it is asked for its first batch. */
  readonly start: (options?: RolloutRunOptions) => RolloutRun<O>
}

/**
 * Plays many conversations at a time, each by itself, and gives out whole groups when they are complete, or turns as they happen.
 *
 * A task is one reset of its environment: a group. Its members are played each by itself, `maxInFlight` of all groups at a time, and a
 * place that is free is taken by the next task, so that nobody waits for the longest conversation of a batch. Randomness belongs to task and member: equal keys
 * and a policy that samples from its key give equal trajectories, whatever `maxInFlight` is and whatever is over first.
 *
 * Every task that is drawn is given out, fails with a cause, or is cancelled, and stands in `position` until then. What failed has no
 * reward and no rows; its group is left out. With `ahead`, tasks are drawn while the caller does something else, so many and no more. A conversation that reaches `tokenBudget` is `truncated`, and listed in `cut`.
 *
 * `for await (const batch of collector)` ends with the tasks, or throws when too much failed; a batch stays alive until the next one is asked for.
 *
 * Errors   throws RangeError with all options that are wrong; `next` gives `Left(RolloutsStopped)`, after what was complete.
 * Effects  those of environment and policy. Work that is called off is told so by its signal, and not waited for.
 * Cost     memory of the rollouts in flight and of the groups that are complete and not taken.
 * Source   TorchRL `LLMCollector` over `AsyncEnvPool`, with `dialog_turns_per_batch`, `yield_only_last_steps` and `yield_completed_trajectories`;
 *          here groups stay whole, and what is not complete at the end is given out or listed, never lost.
 *
 * @example
 * const env = () => ScriptedEnv([{ rewards: [1] }])
 * AsyncLLMCollector({ env, policy: ScriptedPolicy({ answers: [] }), key: keyFromSeed(1), tasks: 3, maxInFlight: 2 }).start().inFlight() // 0
 */
export const AsyncLLMCollector = <O extends TokenPrompt>(
  options: AsyncLLMCollectorOptions<O>,
): AsyncLLMCollector<O> => {
  const rules = runRules(options)
  const start: AsyncLLMCollector<O>['start'] = (given = {}) => rolloutRun(rules, given)
  return {
    start,
    async *[Symbol.asyncIterator]() {
      const run = start()
      try {
        while (true) {
          const taken = await run.next()
          if (E.isLeft(taken)) throw new FailureError(taken.left)
          if (taken.right._tag === 'End') return
          using batch = taken.right.batch
          yield batch.value
        }
      } finally {
        await run.close()
      }
    },
  }
}
