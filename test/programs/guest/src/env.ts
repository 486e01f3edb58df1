/** A package of a user: questions about two dice, and a reward that pays part of a near answer. */
import * as T from 'tandem-rl'
import { reward } from 'tandem-rl/rewards'

/** Pays 1 for the sum of the dice, and 0.2 for a number that is off by one. */
export const diceReward = reward(({ prediction, answer }) => {
  const distance = Math.abs(Number(prediction) - Number(answer))
  return distance === 0 ? 1 : distance === 1 ? 0.2 : 0
})

/** Draws two dice for each task from a key. */
export const diceTasks = (key: T.Key): T.TaskSource =>
  T.endlessTasks('dice', (index) => {
    const [one = 1, other = 1] = [0, 1].map((i) => 1 + T.uniformInteger(T.child(key, index), 6, i))
    return { id: String(index), query: `You throw ${one} and ${other}. What is the sum?`, answer: String(one + other) }
  })

/** An environment with one question and one answer for each episode. */
export const diceEnv = (source: T.TaskSource) => (tasks: T.TaskContext) =>
  T.SingleTurnEnv({ source, ...tasks, reward: diceReward })
