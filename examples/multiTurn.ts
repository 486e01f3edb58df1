import * as T from 'tandem-rl'

/** Numbers to guess in up to four turns. A wrong guess gets a hint, and early success pays more. */
const guessing = (numbers: readonly number[]) => (tasks: T.TaskContext) =>
  T.MultiTurnEnv({
    source: T.taskList(
      'numbers',
      numbers.map((n) => ({ query: 'Guess a number from 0 to 9.', answer: `${n}` })),
    ),
    ...tasks,
    maxTurns: 4,
    reply: ({ answer, task, turn }) => {
      const guess = Number(/\d/.exec(answer)?.[0] ?? Number.NaN)
      if (guess === Number(task.answer)) return { done: true, reward: 1 / turn }
      return guess < Number(task.answer) ? 'Higher.' : 'Lower.'
    },
  })

export const recipe = T.defineRecipe({
  name: 'guessing',
  summary: 'Train a model by GRPO to guess numbers from hints.',
  defaults: { steps: 20, sampling: { maxNewTokens: 16 } },
  env: guessing([0, 1, 3, 4, 6, 7, 9]),
  heldOut: [{ env: guessing([2, 5, 8]), measure: 'return' }],
})
