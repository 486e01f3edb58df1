/** Programs for threads, one for each way that a thread can go. */
import { threadId } from 'node:worker_threads'
import type { ThreadPort } from '@tandem-rl/base'
import { answerJobs } from '@tandem-rl/host'

/** Sends everything back. */
export const echo = (port: ThreadPort, input: unknown): void => {
  port.post(input)
  port.listen((message) => port.post(message))
}

/** Sends a response and closes. */
export const leave = (port: ThreadPort): void => {
  port.post('last words')
  process.exit(3)
}

export const fail = (): void => {
  throw new RangeError('no such number')
}

/** Takes memory until there is none. */
export const hoard = (): void => {
  const held: number[][] = []
  for (;;) held.push(Array.from({ length: 1e5 }, (_, i) => i + held.length))
}

/** Never gives the event loop a turn. */
export const spin = (port: ThreadPort): void => {
  port.post('spinning')
  for (;;);
}

/** Answers with the lengths of what it is given, and writes a 7 into it. */
export const write = (port: ThreadPort): void =>
  port.listen((message) => {
    const array = message as Float32Array // the test's own message
    array[0] = 7
    port.post(array.length)
  })

export const notAFunction = 3

interface Job {
  readonly echo?: unknown
  readonly sum?: Uint8Array
  readonly spin?: true
  readonly throw?: string
  readonly fill?: true
}

/** Answers jobs with the id of its thread. */
export const jobs = (port: ThreadPort): void =>
  answerJobs(port, (job: Job) => {
    if (job.throw !== undefined) throw new RangeError(job.throw)
    if (job.fill === true) hoard()
    while (job.spin === true);
    return { thread: threadId, value: job.sum === undefined ? job.echo : job.sum.reduce((sum, x) => sum + x, 0) }
  })
