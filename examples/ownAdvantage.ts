import * as T from 'tandem-rl'

const regret = (rewards: readonly number[], groups: readonly string[]) =>
  rewards.map((r, i) => r - Math.max(...rewards.filter((_, j) => groups[j] === groups[i])))
const advantage = T.defineAdvantage({ name: 'regret', compute: regret })
const env = (tasks: T.TaskContext, { key }: T.RecipeContext) => T.GSM8KEnv({ source: T.wordProblems(key), ...tasks })
export const recipe = T.defineRecipe({ name: 'regret', summary: 'Train with my own advantage.', env, advantage })
