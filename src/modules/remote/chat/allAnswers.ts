/** Answers to many requests of one call. */
import { cancellation } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'

/**
 * The answers to all requests, in order, or the first failure that came, which ends the others.
 *
 * Effects  `ask` is called for all of them at once, each with a signal of its own.
 */
export const allAnswers = async <Q, F, A>(
  requests: readonly Q[],
  ask: (request: Q, signal: AbortSignal, index: number) => Promise<E.Either<F, A>>,
  caller: AbortSignal | undefined,
): Promise<E.Either<F, readonly A[]>> => {
  const work = cancellation({ signal: caller })
  let first: E.Left<F> | undefined
  const all = await Promise.all(
    requests.map(async (request, index) => {
      const part = work.part()
      const answer = await ask(request, part.signal, index)
      part.release()
      if (E.isLeft(answer)) {
        first ??= answer
        work.stop()
      }
      return answer
    }),
  )
  work.release()
  return first ?? E.sequenceArray(all)
}
