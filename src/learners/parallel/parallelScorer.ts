import { sharedRows } from '../../data/completions.js'
import { type CompletionScorer, rowRange, type Scorer } from '../../modules/transformer/scorer.js'
import type { WeightRole } from './messages.js'
import type { Replicas } from './replicas.js'
import { shared } from './shared.js'

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
    const rows = { ...request, shared: request.shared ?? sharedRows(request.prompts) }
    return shared(replicas.workers, rows.prompts.length / rows.shared, {
      own: async ({ from, to }) => own.score(params, rowRange(rows, from, to)),
      other: (worker, { from, to }) => replicas.run(worker, { _tag: 'Score', role, request: rowRange(rows, from, to) }),
    })
  },
  release: own.release,
})
