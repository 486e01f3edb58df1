/**
 * Trains a random model to write letters of the second half of the alphabet. `tandem train` runs it
 * against a server, so only the text side of the model is loaded.
 */
import * as T from 'tandem-rl'
import { loadText } from 'tandem-rl/models'

const LETTERS = 'abcdefghijklmnopqrstuvwxyz'

/** A prompt of random words. */
const promptOf = (key: T.Key, words: number): string =>
  Array.from({ length: words }, (_, word) =>
    Array.from({ length: 4 }, (_, i) => LETTERS[T.uniformInteger(T.child(T.child(key, word), i), LETTERS.length)]).join(
      '',
    ),
  ).join(' ')

/** Returns the share of the letters that are between n and z. */
const shareOf = (text: string): number => {
  const letters = text.match(/[a-z]/g) ?? []
  return letters.length === 0 ? 0 : letters.filter((letter) => letter > 'm').length / letters.length
}

export const recipe = T.defineRecipe({
  name: 'letters',
  summary: 'Train a random model on a server to write letters of the second half of the alphabet.',
  settings: T.policySettings.extend({
    promptWords: T.z.number().int().positive().max(4096).default(32).describe('words of a prompt'),
  }),
  build: async (settings, context) => {
    const key = T.child(T.keyFromSeed(settings.seed), 'letters')
    const source = T.endlessTasks('letters', (index) => ({
      id: String(index),
      query: promptOf(T.child(key, index), settings.promptWords),
      answer: '',
    }))
    const text = T.orThrow(await loadText(settings.model)())
    return T.defineRun(
      T.grpoParts(settings, {
        model: { ...text, arrays: new Map() }, // the weights are on the server
        env: (tasks) =>
          T.MultiTurnEnv({
            source,
            ...tasks,
            maxTurns: 1,
            solvedAt: 1,
            reply: ({ answer }) => ({ done: true, reward: shareOf(answer) }),
          }),
      }),
      context,
    )
  },
})
