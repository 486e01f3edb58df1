import type { CompletionGenerator, CompletionRequest } from '../../modules/generation/generator.js'
import type { Replicas } from './replicas.js'
import { type PromptRange, shared } from './shared.js'

const partOf = (
  { prompts, group, keys, options }: CompletionRequest,
  { from, to }: PromptRange,
): CompletionRequest => ({
  prompts: prompts.slice(from, to),
  group,
  options,
  keys: keys.slice(from * group, to * group),
})

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
  generate: (params, request, pause) => {
    replicas.hold('policy', params)
    return shared(replicas.workers, request.prompts.length, {
      own: (range) => own.generate(params, partOf(request, range), pause),
      other: (worker, range) => replicas.run(worker, { _tag: 'Generate', request: partOf(request, range) }),
    })
  },
  release: own.release,
})
