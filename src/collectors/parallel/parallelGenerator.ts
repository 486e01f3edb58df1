import type { CompletionGenerator, CompletionRequest } from '../../modules/generation/generator.js'
import type { Replicas } from './replicas.js'

/** The part of a request that a worker does: neighboring prompts, as many as others have, or one more. */
const shareOf = (request: CompletionRequest, worker: number, workers: number): CompletionRequest => {
  const { prompts, group, keys, options } = request
  const start = (i: number): number => Math.floor((i * prompts.length) / workers)
  const [from, to] = [start(worker), start(worker + 1)]
  return { prompts: prompts.slice(from, to), group, keys: keys.slice(from * group, to * group), options }
}

/**
 * A generator that shares prompts out to replicas: each samples the completions of some of them.
 *
 * Every completion draws from its own key, and all replicas hold the same weights: what is sampled depends on the number of workers by
 * rounding only, and not at all on which of them is faster.
 *
 * Errors   those of `own`, the generator of this thread; rejects with FailureError of ThreadFailure when a thread has ended.
 * Effects  sends weights that the replicas do not have. `release` frees what `own` compiled; the replicas stay.
 */
export const parallelGenerator = (own: CompletionGenerator, replicas: Replicas): CompletionGenerator => ({
  generate: async (params, request, pause) => {
    const workers = Math.max(1, Math.min(replicas.workers, request.prompts.length))
    replicas.hold(params)
    const others = Promise.allSettled(
      Array.from({ length: workers - 1 }, (_, i) =>
        replicas.run(i + 1, { _tag: 'Generate', request: shareOf(request, i + 1, workers) }),
      ),
    )
    const [mine] = await Promise.allSettled([own.generate(params, shareOf(request, 0, workers), pause)])
    return [mine!, ...(await others)].flatMap((share) => {
      if (share.status === 'rejected') throw share.reason
      return share.value
    })
  },
  release: own.release,
})
