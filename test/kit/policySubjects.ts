/** Policies as `policySuite` asks them: token prompts and histories from the same questions. */
import { History, message, textOf } from '@tandem-rl/text'
import { isLeft, left, right } from 'fp-ts/lib/Either.js'
import type {
  HistoryAction,
  HistoryPrompt,
  LogProbModel,
  Policy,
  PolicyFailure,
  TokenAction,
  TokenPrompt,
} from '../../src/data/policy.js'
import { data, ragged, raggedRows } from '../../src/data/tensorDict/leaf.js'
import { find, get, TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { enginePolicy, type PolicyEngine } from '../../src/modules/generation/policy/enginePolicy.js'
import type { PolicyAbilities, PolicySubject, SuiteAsk, SuiteSampling } from './policySuiteParts.js'
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

/** A refusal of a wrapper that throws for settings that cannot be, where it is made. */
const refusedSetting = (error: unknown): PolicyFailure => {
  if (!(error instanceof RangeError)) throw error
  return { _tag: 'PolicyFailure', policy: 'as it was made', kind: 'asked', reason: error.message }
}

const raggedAt = (td: TensorDict, path: readonly string[]): readonly (readonly number[])[] | undefined => {
  const entry = find(td, path)
  return entry !== undefined && '_tag' in entry && entry._tag === 'Ragged' ? raggedRows(entry) : undefined
}

const dataAt = (td: TensorDict, path: readonly string[]): readonly unknown[] | undefined => {
  const entry = find(td, path)
  return entry !== undefined && '_tag' in entry && entry._tag === 'Data' ? entry.items.toArray() : undefined
}

/**
 * The `ask` of a policy that reads and writes messages. Ids, log-probabilities and versions are
 * null where its actions have none.
 */
export const askHistories =
  (policy: (sampling: SuiteSampling) => Policy<HistoryPrompt, HistoryAction>): PolicySubject['ask'] =>
  async ({ questions, sampling, key, signal }: SuiteAsk) => {
    const histories = questions.map((question) => History([message('user', question)]))
    const td = TensorDict({ history: { prompt: data(histories) } }, [histories.length])
    let asked: Policy<HistoryPrompt, HistoryAction>
    try {
      asked = policy(sampling)
    } catch (error) {
      return left(refusedSetting(error))
    }
    const acted = await asked.act(td, key, signal && { signal })()
    if (isLeft(acted)) return acted
    const [ids, logProbs] = [
      raggedAt(acted.right, ['tokens', 'response']),
      raggedAt(acted.right, ['logProbs', 'response']),
    ]
    const [reasons, versions] = [dataAt(acted.right, ['stopReason']), dataAt(acted.right, ['policyVersion'])]
    const messages = get(acted.right, 'history', 'response').items.toArray()
    return right(
      messages.map((answer, i) => ({
        ids: ids?.[i] ?? null,
        logProbs: logProbs?.[i] ?? null,
        text: textOf(answer),
        stopReason: String(reasons?.[i]),
        version: versions === undefined ? null : Number(versions[i]),
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

/** The sampling of an engine's policy, and what is done to long prompts. */
export const engineSampling = ({ keepLast, ...sampling }: SuiteSampling) => ({
  sampling,
  truncate: keepLast === undefined ? ('refuse' as const) : { keep: keepLast, side: 'end' as const },
})

/**
 * The required abilities of an engine's policy. `served` names the log-probabilities that the
 * engine returns, as in `EngineAbilities`.
 */
export const engineAbilities = (served: 'all' | 'raw' | 'processed'): PolicyAbilities => {
  const temperature = served === 'raw' ? 'refused' : 'yes'
  const changes = served === 'processed' ? 'refused' : 'yes'
  return {
    ids: 'yes',
    logProbs: 'yes',
    temperature,
    topK: changes,
    topP: changes,
    minP: changes,
    penalties: changes,
    logitBias: changes,
    allowedTokens: changes,
    minTokens: changes,
    stopStrings: 'yes',
    stopTokens: 'yes',
    seeds: 'yes',
    scoring: 'yes',
    contextLimit: 'yes',
    truncation: 'yes',
    cancel: 'yes',
    versions: 'yes',
  }
}

/** The way in which a policy of an engine is called. */
export const engineAsk = (world: PolicyWorld, engine: PolicyEngine): Pick<PolicySubject, 'ask' | 'score'> => ({
  ask: askTokens(world, (sampling) => enginePolicy({ engine, ...engineSampling(sampling) })),
  score: scoreTokens(enginePolicy({ engine })),
})
