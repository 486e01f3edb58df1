/** Resources that tools and rewards use, such as processes, containers and sessions, as types. The real ones are in `src/live/resources`. */
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/**
 * A resource could not be had. `start`: it does not start, or not in time. `dead`: it ended while it was in use. `busy`: none was free in
 * time. `cancelled`: the signal aborted. `closed`: the pool is closed.
 */
export interface ResourceFailure {
  readonly _tag: 'ResourceFailure'
  readonly resource: string
  readonly kind: 'start' | 'dead' | 'busy' | 'cancelled' | 'closed'
  readonly where: string
  readonly reason: string
}

/** Makes a failure of a resource. */
export const resourceFailure = (resource: string, kind: ResourceFailure['kind'], reason: string): ResourceFailure => ({
  _tag: 'ResourceFailure',
  resource,
  kind,
  where: `the resource '${resource}'`,
  reason: `the resource '${resource}': ${reason}`,
})

/**
 * How to start, check and end a resource. `R` is what its users get, `A` are the arguments of a start, and `F` is how a start fails.
 */
export interface ResourceSpec<R, A = void, F extends { readonly reason: string } = ResourceFailure> {
  readonly name: string
  /** Starts one. When the signal aborts, it ends what it began. */
  readonly start: (args: A, signal: AbortSignal) => TaskEither<F, R>
  /** Ends one. Resolves when nothing of it is left. */
  readonly end: (resource: R) => Promise<void>
  /** Returns `false` for one that has died. Called before an idle one is given out. Default: it lives. */
  readonly isAlive?: (resource: R) => boolean | Promise<boolean>
  /** Prepares a used one for the next user. Default: a used one is ended, and a new one is started. */
  readonly reset?: (resource: R) => TaskEither<F, void>
}

/** How long a resource belongs to its user: one call, one conversation, the group of a task, or the whole run. */
export type ResourceScope = 'call' | 'chain' | 'group' | 'run'
