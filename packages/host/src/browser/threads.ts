/** Threads, which pages do not have in Node's form, in place of `../threads.ts`. */
import * as TE from 'fp-ts/lib/TaskEither.js'
import type * as node from '../threads.js'

export const liveThreads: typeof node.liveThreads = {
  start: () => TE.left({ _tag: 'ThreadFailure', kind: 'start', reason: 'programs cannot start threads in a browser' }),
}
