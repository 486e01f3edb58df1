/** The task: questions about the number of balls in a box. */
import * as T from 'tandem-rl'
import { reward } from './reward.js'

/** Generates an endless sequence of questions from a key. No question is in both parts. */
export const questions = (key: T.Key, part: 'trained' | 'held out'): T.TaskSource =>
  T.endlessTasks('balls', (index) => {
    const own = T.child(key, index)
    const had = (part === 'trained' ? 8 : 9) + 2 * T.uniformInteger(own, 6, 0)
    const [gave, got] = [1 + T.uniformInteger(own, 7, 1), 1 + T.uniformInteger(own, 9, 2)]
    return {
      id: String(index),
      query: `Zoe had ${had} balls in a box. Then Zoe gave ${gave} balls to Ben. Soon her parents brought her ${got} more balls. How many balls does Zoe have now?`,
      answer: String(had - gave + got),
    }
  })

/** An environment with one question and one answer per episode. */
export const balls = (source: T.TaskSource) => (tasks: T.TaskContext) =>
  T.MultiTurnEnv({
    ...{ source, ...tasks, maxTurns: 1, solvedAt: 1 },
    reply: ({ answer, task }) => ({ done: true, reward: reward(answer, task.answer) }),
  })
