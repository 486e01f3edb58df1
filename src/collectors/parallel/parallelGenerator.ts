import type { CompletionGenerator, CompletionRequest } from '../../modules/generation/generator.js'
import type { Replicas } from './replicas.js'

/**
 * Returns a worker's part of a request: neighboring prompts, in parts that differ by at most one.
 */
const shareOf = (request: CompletionRequest, worker: number, workers: number): CompletionRequest => {
  const { prompts, group, keys, options } = request
  const start = (i: number): number => Math.floor((i * prompts.length) / workers)
  const [from, to] = [start(worker), start(worker + 1)]
  return { prompts: prompts.slice(from, to), group, keys: keys.slice(from * group, to * group), options }
}

/**
 * Makes a generator that distributes prompts over replicas.
 *
 * Every completion draws from its own key, and all replicas hold the same weights. The number of
 * workers therefore changes the samples by rounding only, and the workers' speed does not matter.
 *
 * Errors   those of `own`, the generator of this thread. Rejects with FailureError of ThreadFailure
 *          if a thread has ended.
 * Effects  sends the replicas the weights that they lack. `release` frees what `own` compiled; the
 *          replicas stay.
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
