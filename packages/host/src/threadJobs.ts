/** Jobs on another thread, one after another, each with a time limit. */
import type { Thread, ThreadFailure, ThreadPort, ThreadProgram, Threads } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { liveThreads } from './threads.js'

/** A failure of a job. `busy`: too many jobs are waiting. */
export type JobFailure = Omit<ThreadFailure, 'kind'> & { readonly kind: ThreadFailure['kind'] | 'busy' }

interface JobOptions {
  readonly size: number
  readonly transfer?: readonly ArrayBuffer[]
}

/** A thread for jobs. It starts with the first one. */
export interface ThreadJobs<in J, R> {
  /**
   * Runs a job of a size after those before it. Buffers in `transfer` are moved to the thread. A
   * job that exceeds its time limit ends the thread, and the next one starts another. A job that
   * makes the thread fail fails alone.
   */
  readonly run: (job: J, options: JobOptions) => Promise<E.Either<JobFailure, R>>
}

export interface ThreadJobsOptions {
  /** Cloned to the program, which answers jobs with `answerJobs`. */
  readonly input: unknown
  /** Time limit of a job in milliseconds, from its turn on. */
  readonly limitMs: number
  /** Largest sum of the sizes of jobs that wait or run. A job alone may be larger. */
  readonly mostSize: number
  readonly heapMegabytes: number
  /** Time without jobs in milliseconds after which the thread ends and its memory is free. */
  readonly idleMs: number
  readonly threads?: Threads
}

/** Answers the jobs of a thread. Called by its program. An exception ends the thread. */
export const answerJobs = <J, R>(port: ThreadPort, answer: (job: J) => Promise<R> | R): void =>
  port.listen((job) => {
    void (async () => port.post(await answer(job as J)))() // jobs are posted by `threadJobs`
  })

const failed = (kind: JobFailure['kind'], reason: string): E.Either<JobFailure, never> =>
  E.left({ _tag: 'ThreadFailure', kind, reason })

/** A running thread, with the receiver of its next message. */
interface Running {
  readonly thread: Thread
  receive: (message: unknown) => void
}

/**
 * Makes a thread for jobs.
 *
 * Effects  starts the thread at the first job. It does not keep the process alive; a running job
 *          does.
 */
export const threadJobs = <J, R>(
  program: ThreadProgram,
  { input, limitMs, mostSize, heapMegabytes, idleMs, threads = liveThreads }: ThreadJobsOptions,
): ThreadJobs<J, R> => {
  let running: Running | undefined
  let tail: Promise<unknown> = Promise.resolve()
  let [jobs, total] = [0, 0]
  let idle: ReturnType<typeof setTimeout> | undefined

  const end = (): void => {
    void running?.thread.stop(Promise.resolve(), 0)
    running = undefined
  }

  const started = async (): Promise<E.Either<JobFailure, Running>> => {
    if (running !== undefined) return E.right(running)
    const start = await threads.start(program, { input, heapMegabytes, process: 'may end' })()
    if (E.isLeft(start)) return start
    const made: Running = { thread: start.right, receive: () => undefined }
    made.thread.listen((message) => made.receive(message))
    void made.thread.ended.then(() => {
      if (running === made) running = undefined
    })
    running = made
    return E.right(made)
  }

  const runNow = async (job: J, transfer: readonly ArrayBuffer[]): Promise<E.Either<JobFailure, R>> => {
    clearTimeout(idle)
    const at = await started()
    if (E.isLeft(at)) return at
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        resolve(failed('timeout', `the thread did not answer within ${limitMs} ms`))
        end()
      }, limitMs)
      const settle = (result: E.Either<JobFailure, R>): void => {
        clearTimeout(timer)
        resolve(result)
      }
      at.right.receive = (message) => settle(E.right(message as R)) // by the program
      void at.right.thread.ended.then((failure) => settle(E.left(failure)))
      at.right.thread.post(job, transfer)
    })
  }

  return {
    run: async (job, { size, transfer = [] }) => {
      if (jobs > 0 && total + size > mostSize) return failed('busy', `${jobs} jobs are waiting`)
      jobs++
      total += size
      const result = tail.then(() => runNow(job, transfer))
      tail = result
      try {
        return await result
      } finally {
        jobs--
        total -= size
        if (jobs === 0) {
          idle = setTimeout(end, idleMs)
          idle.unref()
        }
      }
    },
  }
}
