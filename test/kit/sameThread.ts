/**
 * Programs of threads that run in this thread: everything is cloned and sent as between two,
 * without the time that a thread takes to start.
 */
import { MessageChannel } from 'node:worker_threads'
import type { ThreadFailure, ThreadPort, Threads } from '@tandem-rl/base'
import { right } from 'fp-ts/lib/Either.js'
import { messagePort } from '../../packages/host/src/threads.js'

export const sameThread: Threads = {
  start:
    ({ module, exportName }, { input }) =>
    async () => {
      const { port1: here, port2: there } = new MessageChannel()
      const exported: Readonly<Record<string, unknown>> = await import(module)
      const run = exported[exportName] as (port: ThreadPort, input: unknown) => Promise<void> // the contract of a ThreadProgram
      const ended = new Promise<ThreadFailure>((resolve) => {
        here.once('close', () => resolve({ _tag: 'ThreadFailure', kind: 'exit', reason: 'the channel was closed' }))
      })
      void run(messagePort(there), structuredClone(input))
      return right({
        ...messagePort(here),
        ended,
        stop: async (done) => {
          await Promise.allSettled([done])
          here.close()
          await ended
        },
      })
    },
}
