import * as T from 'tandem-rl'

const { abs, exp, mul, square, sub } = T.tf
const EPSILON = 0.2

/**
 * A quadratic penalty instead of clipping: `-(r A - |A| (r - 1)^2 / (2 epsilon))`, whose gradient
 * is 0 only at `r = 1 + sign(A) epsilon`. The equation is that of Simple Policy Optimization,
 * arXiv:2401.16025. Clipping-Free Policy Optimization, arXiv:2601.22801, has such a penalty for
 * language models.
 */
export const clippingFree = T.defineLoss({
  name: 'clippingFree',
  reads: ['advantages', 'oldLogProbs'],
  apply: ({ logProbs }, { advantages, oldLogProbs, ...batch }) => {
    const ratio = exp(mul(sub(logProbs, oldLogProbs), batch.mask))
    const penalty = mul(abs(advantages), mul(square(sub(ratio, 1)), 1 / (2 * EPSILON)))
    return { loss: T.tokenMean(sub(penalty, mul(ratio, advantages)), batch) }
  },
  module: import.meta.url,
})
const env = (tasks: T.TaskContext, { key }: T.RecipeContext) => T.GSM8KEnv({ source: T.wordProblems(key), ...tasks })
export const recipe = T.defineRecipe({ name: 'cfpo', summary: 'Train without clipping.', env, loss: clippingFree })
