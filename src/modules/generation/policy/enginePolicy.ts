/** Makes a policy of any engine: in this process, on a thread, on a server, or a pool of them. */
import {
  ABORTED,
  type Cancellation,
  cancellation,
  checkOptions,
  errorMessage,
  type Ids,
  type Limiter,
  limiter,
  unlessAborted,
  untilAborted,
} from '@tandem-rl/base'
import { liveIds } from '@tandem-rl/base/host'
import type { GenerationEvent, GenerationFailure, GenerationRequest, SamplingParams } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { EngineAbilities, EngineClient } from '../../../data/engineClient.js'
import type {
  ActOptions,
  LogProbModel,
  Policy,
  PolicyFailure,
  SamplingRecord,
  TokenAction,
  TokenPrompt,
} from '../../../data/policy.js'
import { data, type Ragged, ragged, raggedLength, raggedRow } from '../../../data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../data/tensorDict/tensorDict.js'
import { ENGINE_POLICY_OPTIONS } from '../../optionKinds.js'
import { collectEvents, type Generated } from '../generateAll.js'
import { samplingParams } from '../sampling/params.js'
import { type ActionRow, actionRow, type MixedVersions, scoredRow } from './actionRows.js'
import { type PlannedRequest, planRequests, type Truncation } from './requestPlan.js'
import { scoreRequests } from './scoreRequests.js'
import { missingTemperedLogProbs } from './temperedLogProbs.js'

/**
 * The part of an engine that a policy uses: an `EngineClient`, an `enginePool`, or `localClient` of
 * an `LLMEngine`.
 */
export type PolicyEngine = Pick<EngineClient, 'name' | 'connect' | 'generate'>

/**
 * The sampling settings of a policy. It sets the number of completions, their keys and the reported
 * log-probabilities itself.
 */
export type EngineSampling = Partial<
  Omit<SamplingParams, 'n' | 'key' | 'topLogProbs' | 'promptLogProbs' | 'logProbsMode' | 'maxTokens'>
> & {
  /** Default 128. */
  readonly maxTokens?: number
}

export interface EnginePolicyOptions {
  readonly engine: PolicyEngine
  readonly sampling?: EngineSampling
  /**
   * Treatment of prompts that are too long. Tokens that are cut off are not part of the action.
   * Log-probabilities are conditioned on the kept tokens only, so training must cut the prompt in
   * the same way. Default `refuse`.
   */
  readonly truncate?: Truncation
  /**
   * Treatment of rows with several weight versions, whose log-probabilities belong to several
   * policies. With `each`, actions have `versions.response`, one per token. Default `refuse`.
   */
  readonly mixedVersions?: MixedVersions
  /** Default: the name of the engine. */
  readonly name?: string
  readonly limits?: EnginePolicyLimits
  readonly ids?: Ids
}

export interface EnginePolicyLimits {
  /** Maximum number of concurrent requests of this policy, over all its calls. Default 256. */
  readonly maxConcurrent?: number
  /** Maximum completions per request. Default: as many as the engine decodes in parallel. */
  readonly maxPerRequest?: number
  /**
   * Time limit of one call of `act` or `score` in milliseconds. Default: only the limits of the
   * engine.
   */
  readonly deadlineMs?: number
}

/** The policy of an engine. It also scores if the engine reports log-probabilities of prompts. */
export interface EnginePolicy extends Policy<TokenPrompt, TokenAction>, LogProbModel {
  readonly name: string
  /** Returns a policy of the same engine with other sampling settings. */
  readonly withSampling: (sampling: EngineSampling) => EnginePolicy
}

type Kind = NonNullable<PolicyFailure['kind']>

/** The state that all calls of a policy share. */
interface Shared {
  readonly name: string
  readonly engine: PolicyEngine
  readonly places: Limiter
  readonly ids: Ids
  readonly deadlineMs: number | undefined
}

const policyFailure = (policy: string, kind: Kind, reason: string): PolicyFailure => ({
  _tag: 'PolicyFailure',
  policy,
  kind,
  reason,
})

/** Returns `asked` for failures that a retry cannot fix, otherwise `infrastructure`. */
const kindOf = ({ kind }: GenerationFailure): Kind =>
  kind === 'invalid' || kind === 'unauthorized' ? 'asked' : 'infrastructure'

/** Returns the failure of a cancelled call, or null if it was not cancelled. */
const calledOff = ({ name, deadlineMs }: Shared, work: Cancellation): PolicyFailure | null => {
  switch (work.why()) {
    case 'caller':
      return policyFailure(name, 'cancelled', 'cancelled by the caller')
    case 'deadline':
      return policyFailure(name, 'infrastructure', `no answer within the deadline of ${deadlineMs} ms`)
    case 'stopped':
    case null:
      return null
  }
}

/**
 * Runs `f` until the caller or the deadline cancels it. Converts errors that an engine throws
 * against its type.
 */
const bounded = async <T>(
  shared: Shared,
  { signal }: ActOptions,
  f: (work: Cancellation, abilities: EngineAbilities) => Promise<E.Either<PolicyFailure, T>>,
): Promise<E.Either<PolicyFailure, T>> => {
  const { name, engine, deadlineMs } = shared
  const work = cancellation({ signal, deadlineMs })
  try {
    const connected = work.signal.aborted ? ABORTED : await unlessAborted(engine.connect(), work.signal)
    if (connected === ABORTED) return E.left(calledOff(shared, work)!) // only the caller or the deadline can abort before `f`
    if (E.isLeft(connected)) {
      const { kind, reason } = connected.left
      return E.left(policyFailure(name, kind === 'refused' || kind === 'missing' ? 'asked' : 'infrastructure', reason))
    }
    const result = await f(work, connected.right)
    const stopped = E.isLeft(result) ? calledOff(shared, work) : null
    return stopped === null ? result : E.left(stopped)
  } catch (error) {
    const reason = errorMessage(error)
    return E.left(policyFailure(name, 'infrastructure', `the engine ${engine.name} broke its contract: ${reason}`))
  } finally {
    work.release()
  }
}

/** A request, and the observer of its completions. */
interface Wanted {
  readonly request: Omit<GenerationRequest, 'id'>
  readonly onTokens?: ((completion: number, ids: readonly number[]) => void) | undefined
}

/** Yields the events of a request and reports new tokens to the observer. */
async function* reported(
  events: AsyncIterable<GenerationEvent>,
  onTokens: Wanted['onTokens'],
): AsyncGenerator<GenerationEvent, void> {
  for await (const event of events) {
    if (event._tag === 'Tokens')
      onTokens?.(
        event.index,
        event.tokens.map(({ id }) => id),
      )
    yield event
  }
}

/**
 * Returns the answer to one request, or its failure. Handles streams that throw against their type.
 */
const askOne = async (
  { engine, ids }: Shared,
  { request, onTokens }: Wanted,
  signal: AbortSignal,
): Promise<E.Either<GenerationFailure, Generated>> => {
  try {
    const events = engine.generate({ ...request, id: ids.fresh() }, { signal })
    return await collectEvents(reported(untilAborted(events, signal), onTokens), request.sampling.n)
  } catch (error) {
    const reason = `the engine ${engine.name} broke its contract: ${errorMessage(error)}`
    return E.left({ _tag: 'GenerationFailure', kind: 'internal', reason })
  }
}

/** Returns the answers to all requests, or the first failure, which cancels the others. */
const askAll = async (
  shared: Shared,
  requests: readonly Wanted[],
  work: Cancellation,
): Promise<E.Either<PolicyFailure, readonly Generated[]>> => {
  const failures: PolicyFailure[] = []
  const ask = async (request: Wanted): Promise<readonly Generated[]> => {
    const { signal, release } = work.part()
    try {
      const answer = await shared.places.run(() => askOne(shared, request, signal), signal)
      if (answer === ABORTED) return []
      if (E.isRight(answer)) return [answer.right]
      failures.push(policyFailure(shared.name, kindOf(answer.left), answer.left.reason))
      work.stop()
      return []
    } finally {
      release()
    }
  }
  const answers = (await Promise.all(requests.map(ask))).flat()
  if (answers.length === requests.length) return E.right(answers)
  return E.left(failures[0] ?? policyFailure(shared.name, 'cancelled', 'cancelled before it started'))
}

/** Returns the rows of an answer: one completion each, or the same one for all at temperature 0. */
const rowsOfAnswer = ({ rows }: PlannedRequest, answer: readonly ActionRow[]): readonly ActionRow[] =>
  answer.length === rows ? answer : Array.from({ length: rows }, () => answer[0]!)

const recordOf = (sampling: SamplingParams, maxTokens: number): SamplingRecord => ({
  temperature: sampling.temperature,
  topK: sampling.topK === 0 ? null : sampling.topK,
  topP: sampling.topP === 1 ? null : sampling.topP,
  maxNewTokens: maxTokens,
  minNewTokens: sampling.minTokens,
})

const actionOf = (
  rows: readonly ActionRow[],
  record: SamplingRecord,
  mixedVersions: MixedVersions,
): TensorDict<TokenAction> => {
  const ids = rows.map((row) => row.ids)
  const logProbs = rows.map((row) => row.logProbs)
  return TensorDict(
    {
      tokens: { response: ragged('int32', ids) },
      logProbs: { response: ragged('float32', logProbs) },
      stopReason: data(rows.map(({ stopReason }) => stopReason)),
      policyVersion: data(rows.map(({ version }) => version)),
      sampling: data(rows.map(() => record)),
      ...(mixedVersions === 'each' && {
        versions: {
          response: ragged(
            'int32',
            rows.map(({ versions }) => versions),
          ),
        },
      }),
    },
    [rows.length],
  )
}

const rowsOf = (rows: Ragged<'int32'>): readonly Int32Array[] =>
  Array.from({ length: raggedLength(rows) }, (_, i) => raggedRow(rows, i))

/** Default number of new tokens, the same as in `TransformersWrapper`. */
const MAX_TOKENS = 128

const sampler =
  (shared: Shared, options: EnginePolicyOptions): EnginePolicy['act'] =>
  (td, key, how = {}) =>
  () =>
    bounded(shared, how, async (work, abilities) => {
      const { truncate = 'refuse', mixedVersions = 'refuse', limits = {} } = options
      const maxTokens = options.sampling?.maxTokens ?? MAX_TOKENS
      const refuse = (reason: string) => E.left(policyFailure(shared.name, 'asked', reason))
      const requested = samplingParams({ ...options.sampling, maxTokens })
      if (E.isLeft(requested)) return refuse(requested.left.reason)
      const sampling = requested.right
      const unreported = missingTemperedLogProbs(abilities.logProbs, sampling)
      if (unreported !== null) return refuse(unreported)
      const maxPerRequest = Math.max(1, limits.maxPerRequest ?? abilities.maxConcurrent)
      const plan = planRequests(rowsOf(get(td, 'tokens', 'prompt')), {
        sampling,
        key,
        truncate,
        maxPerRequest,
        abilities,
      })
      if (E.isLeft(plan)) return refuse(plan.left)
      const { onTokens } = how
      const requests = plan.right.map(
        ({ request, row }): Wanted => ({
          request,
          onTokens: onTokens && ((completion, ids) => onTokens(row + completion, ids)),
        }),
      )
      const answers = await askAll(shared, requests, work)
      if (E.isLeft(answers)) return answers
      const rules = { sampling, mixedVersions, abilities }
      const rows: ActionRow[] = []
      for (const [i, { completions }] of answers.right.entries()) {
        const checked = E.traverseArray((completion: Generated['completions'][number]) => actionRow(completion, rules))(
          completions,
        )
        if (E.isLeft(checked)) return E.left(policyFailure(shared.name, 'infrastructure', checked.left))
        rows.push(...rowsOfAnswer(plan.right[i]!, checked.right))
      }
      return E.right(actionOf(rows, recordOf(sampling, maxTokens), mixedVersions))
    })

const scoring =
  (shared: Shared): EnginePolicy['score'] =>
  (prompts, completions, temperature): TaskEither<PolicyFailure, Ragged<'float32'>> =>
  () =>
    bounded(shared, {}, async (work, abilities) => {
      const plan = scoreRequests(rowsOf(prompts), rowsOf(completions), { temperature, abilities })
      if (E.isLeft(plan)) return E.left(policyFailure(shared.name, 'asked', plan.left))
      const answers = await askAll(
        shared,
        plan.right.map((request) => ({ request })),
        work,
      )
      if (E.isLeft(answers)) return answers
      const rows = E.traverseArrayWithIndex((i: number, { promptLogProbs }: Generated) =>
        scoredRow(promptLogProbs, plan.right[i]!.prompt, raggedRow(prompts, i).length),
      )(answers.right)
      return E.isLeft(rows)
        ? E.left(policyFailure(shared.name, 'infrastructure', rows.left))
        : E.right(ragged('float32', rows.right))
    })

/**
 * Makes a policy of any engine, like `TransformersWrapper` for an in-process model.
 *
 * It reads `tokens.prompt` and samples `tokens.response` with `logProbs.response`:
 * log-probabilities at the sampling temperature (at 1 for temperature 0), before any cut.
 * Neighboring rows with equal prompts are one request, whose prompt is computed once. Row i draws
 * as completion i of the key, independent of the rest of the batch. On Tandem's engines, these are
 * the same draws as in `TransformersWrapper`. Servers that draw from their own seed repeat draws
 * for equal seeds as far as they guarantee it.
 *
 * Defaults temperature 1, no cuts, 128 new tokens.
 * Errors   `Left(PolicyFailure)`. `asked`: invalid settings or prompts, and settings whose
 *          log-probabilities the engine cannot report (raw ones: only at temperature 1 or 0;
 *          processed ones: only without cuts and penalties).
 *          `infrastructure`: any error of the engine; rows are never made up. `cancelled`: by the
 *          signal. If one request fails, the others are cancelled.
 * Effects  sends at most `maxConcurrent` requests to the engine at a time. The signal and the
 *          deadline cancel them.
 * Source   TorchRL `vLLMWrapper` in tokens mode, whose log-probabilities at other temperatures are
 *          not those of the sampled distribution.
 */
export const enginePolicy = (options: EnginePolicyOptions): EnginePolicy => {
  checkOptions('enginePolicy', options, ENGINE_POLICY_OPTIONS)
  const { engine, name = engine.name, limits = {}, ids = liveIds } = options
  const places = limiter(limits.maxConcurrent ?? 256)
  const shared: Shared = { name, engine, places, ids, deadlineMs: limits.deadlineMs }
  const withSampling = (sampling: EngineSampling): EnginePolicy => ({
    name,
    act: sampler(shared, { ...options, sampling: { ...options.sampling, ...sampling } }),
    score: scoring(shared),
    withSampling: (more) => withSampling({ ...sampling, ...more }),
  })
  return withSampling({})
}
