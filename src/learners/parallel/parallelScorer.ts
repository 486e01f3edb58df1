import type { CompletionScorer, ScoreRequest, Scorer } from '../../modules/transformer/scorer.js'
import type { WeightRole } from './messages.js'
import type { Replicas } from './replicas.js'
import { type PromptRange, shared } from './shared.js'

const partOf = ({ groups, completions, temperature }: ScoreRequest, { from, to }: PromptRange): ScoreRequest => ({
  groups: { prompts: groups.prompts.slice(from, to), group: groups.group },
  completions: completions.slice(from * groups.group, to * groups.group),
  temperature,
})

/**
 * Makes a scorer that distributes prompts over replicas. `role` is the place of its weights in
 * them.
 *
 * The number of workers changes the log-probabilities by rounding only.
 *
 * Errors   those of `own`, the scorer of this thread. Rejects with FailureError of ThreadFailure if
 *          a thread has ended.
 * Effects  sends the replicas the weights that they lack. `release` frees what `own` compiled; the
 *          replicas stay.
 */
export const parallelScorer = (own: Scorer, replicas: Replicas, role: WeightRole): CompletionScorer => ({
  score: (params, request) => {
    replicas.hold(role, params)
    return shared(replicas.workers, request.groups.prompts.length, {
      own: async (range) => own.score(params, partOf(request, range)),
      other: (worker, range) => replicas.run(worker, { _tag: 'Score', role, request: partOf(request, range) }),
    })
  },
  release: own.release,
})
