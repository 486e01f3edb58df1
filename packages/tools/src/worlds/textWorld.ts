/** Text worlds: small games of observations and commands, as pure values. */
import type * as E from 'fp-ts/lib/Either.js'

/** A world after its start or after an action. */
export interface WorldView<S = unknown> {
  /** JSON. */
  readonly state: S
  /** The text that the policy reads. */
  readonly observation: string
  /** The actions that the world accepts now, as examples for the policy. */
  readonly actions: readonly string[]
  /** The score so far, from 0 to 1. */
  readonly score: number
  /** `true` once the episode is over. */
  readonly done: boolean
}

/** A world whose state is a value: equal states and actions give equal views. */
export interface TextWorld<S = unknown> {
  readonly name: string
  /** The commands of the world, for the policy. */
  readonly description: string
  /**
   * Starts an episode. Its arguments come from the row of the data set; `Left` names what is wrong
   * with them.
   */
  readonly start: (args: unknown) => E.Either<string, WorldView<S>>
  /**
   * Plays an action. One that the world does not accept changes nothing and is named in the
   * observation.
   */
  readonly act: (state: S, action: string) => WorldView<S>
}
