/** The division of prompts among workers. */

/** Places `from` to `to - 1`. */
export interface PromptRange {
  readonly from: number
  readonly to: number
}

/** The computation of a worker's part. */
export interface SharedWork<T> {
  readonly own: (range: PromptRange) => Promise<readonly T[]>
  /** `worker` is counted from 1: see `Replicas`. */
  readonly other: (worker: number, range: PromptRange) => Promise<readonly T[]>
}

/**
 * Computes results for neighboring prompts on each worker, in parts that differ by at most one, and
 * returns them in order. Waits for all parts, then throws the first error.
 */
export const shared = async <T>(
  workers: number,
  prompts: number,
  { own, other }: SharedWork<T>,
): Promise<readonly T[]> => {
  const count = Math.max(1, Math.min(workers, prompts))
  const start = (i: number): number => Math.floor((i * prompts) / count)
  const rangeOf = (worker: number): PromptRange => ({ from: start(worker), to: start(worker + 1) })
  const others = Promise.allSettled(Array.from({ length: count - 1 }, (_, i) => other(i + 1, rangeOf(i + 1))))
  const [mine] = await Promise.allSettled([own(rangeOf(0))])
  return [mine, ...(await others)].flatMap((part) => {
    if (part.status === 'rejected') throw part.reason
    return part.value
  })
}
