import * as T from 'tandem-rl'

const rows = (words: readonly string[]) => words.map((query) => ({ query, answer: query.toUpperCase() }))
const capitals = (source: T.TaskSource) => (tasks: T.TaskContext) =>
  T.SingleTurnEnv({ source, reward: ({ prediction, answer }) => Number(prediction.trim() === answer), ...tasks })
export const recipe = T.defineRecipe({
  name: 'capitals',
  summary: 'Train a model to write words in capitals.',
  env: capitals(T.taskList('words', rows(['tree', 'sea', 'hill']))),
  heldOut: capitals(T.taskList('other words', rows(['moon', 'star']))),
})
