import * as T from 'tandem-rl'

/** REINFORCE: log-probabilities, weighted by advantages. */
export const reinforce = T.defineLoss({
  name: 'reinforce',
  reads: ['advantages'],
  apply: ({ logProbs }, { advantages, ...batch }) => ({
    loss: T.tokenMean(T.tf.neg(T.tf.mul(logProbs, advantages)), batch),
  }),
  module: import.meta.url,
})
const env = (tasks: T.TaskContext, { key }: T.RecipeContext) => T.GSM8KEnv({ source: T.wordProblems(key), ...tasks })
export const recipe = T.defineRecipe({ name: 'reinforce', summary: 'Train with my own loss.', env, loss: reinforce })
