/** Episodes as tools and rewards see them. */
import type { ResourceFailure } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import type { Either } from 'fp-ts/lib/Either.js'

/** The episode that a tool call or a reward belongs to. */
export interface Episode {
  /** Names the conversation. A retried conversation has the same name. */
  readonly chain: string
  /** Names the group of conversations about one draw of a task; the chain itself without groups. */
  readonly group: string
  /**
   * The task: its whole row if the environment keeps it (`keep: 'task'`), its columns otherwise.
   */
  readonly task: Task | undefined
}

/** A resource that tools and rewards of one episode share, such as a sandbox. */
export interface SharedEnvironment<R> {
  /**
   * Runs `f` with the environment of an episode, one call at a time. `Left(ResourceFailure)` if
   * none could be had, or if it died. When the signal aborts, the environment is ended, because
   * what `f` did to it is unknown.
   */
  readonly use: <T>(
    episode: Episode | undefined,
    signal: AbortSignal,
    f: (environment: R) => Promise<T>,
  ) => Promise<Either<ResourceFailure, T>>
}
