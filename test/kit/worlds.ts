/** Playing text worlds in tests. */

import type { TextWorld, WorldView } from '@tandem-rl/tools'
import * as E from 'fp-ts/lib/Either.js'

/** Plays actions from the start of an episode; throws if its arguments do not fit. */
export const playedWorld = <S>(world: TextWorld<S>, args: unknown, actions: readonly string[]): WorldView<S> => {
  const start = world.start(args)
  if (E.isLeft(start)) throw new Error(start.left)
  return actions.reduce((view, action) => world.act(view.state, action), start.right)
}
