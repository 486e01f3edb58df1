/** Policies for games. */
import { message } from '@tandem-rl/text'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { HistoryAction, HistoryPrompt, Policy } from '../../src/data/policy.js'
import { data } from '../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../src/data/tensorDict/tensorDict.js'

/** Gives the answers in turn, again and again. */
export const inTurn = (name: string, answers: readonly string[]): Policy<HistoryPrompt, HistoryAction> => {
  let calls = 0
  return {
    name,
    act: () => {
      const answer = answers[calls++ % answers.length]!
      return TE.right(TensorDict({ history: { response: data([message('assistant', answer)]) } }, [1]))
    },
  }
}
