/**
 * The types of resources that tools and rewards use, such as processes, containers and sessions.
 * The real ones are in `packages/tools/src/processes`.
 */
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/**
 * A failure to provide a resource. `start`: it does not start, or not in time. `dead`: it ended
 * while it was in use. `busy`: none was free in time. `cancelled`: the signal aborted. `closed`:
 * the pool is closed.
 */
export interface ResourceFailure {
  readonly _tag: 'ResourceFailure'
  readonly resource: string
  readonly kind: 'start' | 'dead' | 'busy' | 'cancelled' | 'closed'
  readonly where: string
  readonly reason: string
}

/** Creates a failure of a resource. */
export const resourceFailure = (resource: string, kind: ResourceFailure['kind'], reason: string): ResourceFailure => ({
  _tag: 'ResourceFailure',
  resource,
  kind,
  where: `the resource '${resource}'`,
  reason: `the resource '${resource}': ${reason}`,
})

/**
 * The life cycle of a resource: start, check, reset, end. `R` is the type of the resource, `A` are
 * the arguments of a start, and `F` is the failure of a start.
 */
export interface ResourceSpec<R, A = void, F extends { readonly reason: string } = ResourceFailure> {
  readonly name: string
  /** Starts a resource. When the signal aborts, it ends the partial start. */
  readonly start: (args: A, signal: AbortSignal) => TaskEither<F, R>
  /** Ends a resource. Resolves when it has ended completely. */
  readonly end: (resource: R) => Promise<void>
  /**
   * Returns `false` for a dead resource. Called before an idle one is reused. Default: always
   * alive.
   */
  readonly isAlive?: (resource: R) => boolean | Promise<boolean>
  /** Prepares a used resource for the next user. Default: it is ended, and a new one is started. */
  readonly reset?: (resource: R) => TaskEither<F, void>
}

/**
 * The lifetime of a resource with its user: one call, one conversation, the group of a task, or the
 * whole run.
 */
export type ResourceScope = 'call' | 'chain' | 'group' | 'run'
