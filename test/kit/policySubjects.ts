/** Policies as `policySuite` asks them: token prompts and histories from the same questions. */
import { isLeft, right } from 'fp-ts/lib/Either.js'
import type { LogProbModel, Policy, TokenAction, TokenPrompt } from '../../src/data/policy.js'
import { ragged, raggedRows } from '../../src/data/tensorDict/leaf.js'
import { get } from '../../src/data/tensorDict/tensorDict.js'
import type { PolicySubject, SuiteAsk, SuiteSampling } from './policySuiteParts.js'
import type { PolicyWorld } from './policySuiteWorld.js'
import { tokenPrompt } from './small.js'

/** The `ask` of a policy that reads and writes token ids. */
export const askTokens =
  (world: PolicyWorld, policy: (sampling: SuiteSampling) => Policy<TokenPrompt, TokenAction>): PolicySubject['ask'] =>
  async ({ questions, sampling, key, signal }: SuiteAsk) => {
    const prompts = questions.map(world.render)
    const acted = await policy(sampling).act(tokenPrompt(prompts), key, signal && { signal })()
    if (isLeft(acted)) return acted
    const ids = raggedRows(get(acted.right, 'tokens', 'response'))
    const logProbs = raggedRows(get(acted.right, 'logProbs', 'response'))
    const reasons = get(acted.right, 'stopReason').items
    const versions = get(acted.right, 'policyVersion').items
    return right(
      ids.map((row, i) => ({
        ids: [...row],
        logProbs: [...logProbs[i]!],
        text: world.decode(row),
        stopReason: reasons.get(i)!,
        version: versions.get(i)!,
      })),
    )
  }

/** The `score` of a model that scores token ids. */
export const scoreTokens =
  (model: LogProbModel): NonNullable<PolicySubject['score']> =>
  async (rows, temperature) => {
    const scores = await model.score(
      ragged(
        'int32',
        rows.map(({ prompt }) => prompt),
      ),
      ragged(
        'int32',
        rows.map(({ completion }) => completion),
      ),
      temperature,
    )()
    return isLeft(scores) ? scores : right(raggedRows(scores.right).map((row) => [...row]))
  }
