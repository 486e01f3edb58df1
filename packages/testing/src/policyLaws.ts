/** The laws of policies, for any policy. */
import type { Key } from '@tandem-rl/base'
import { discard, own, scope, tensorsOf } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { isLeft } from 'fp-ts/lib/Either.js'
import type { Policy } from 'tandem-rl'
import {
  dataSpec,
  find,
  type Ragged,
  raggedRows,
  raggedSpec,
  refine,
  type Spec,
  type TensorDict,
  take,
  toNested,
} from 'tandem-rl/tensordict'
import { anyKey } from './arbitraries.js'
import { type CloseTolerance, EXACT } from './close.js'
import { type Law, require } from './law.js'
import { withoutLeaks } from './leaks.js'
import { listed, tensorDictProblems } from './sameTensorDict.js'
import { shown, textOfMade } from './shown.js'

/** A policy, with inputs for the laws. */
export interface PolicySample<In, Out> {
  readonly policy: Policy<In, Out>
  /** Makes a new state, batch shape `[B]`. The caller owns its tensors. */
  readonly state: () => TensorDict<In>
  /**
   * The spec of all actions: `tokenActionSpec`, `textActionSpec`, `historyActionSpec`, or another
   * one.
   */
  readonly spec: Spec
  /**
   * `independent` if the answer to an element at its position does not depend on the rest of the
   * batch. Use `unpromised` for a policy that draws from one stream for the whole batch. Default
   * `independent`.
   */
  readonly rows?: 'independent' | 'unpromised'
  /**
   * Tolerance between a batch and a smaller one, for engines that add in another order. Default 0.
   */
  readonly tolerance?: CloseTolerance
}

/** The spec of every action in token ids. */
export const tokenActionSpec = {
  tokens: { response: raggedSpec('int32') },
  logProbs: { response: raggedSpec('float32') },
  stopReason: dataSpec<string>('StopReason'),
  policyVersion: dataSpec<number>('number'),
  sampling: dataSpec('SamplingRecord'),
} as const

/** The spec of every action in text. */
export const textActionSpec = {
  text: { response: dataSpec<string>('string') },
  stopReason: dataSpec<string>('StopReason'),
} as const

/** The spec of every action in messages. */
export const historyActionSpec = { history: { response: dataSpec('Message') } } as const

const acted = async <In, Out>(policy: Policy<In, Out>, state: TensorDict<In>, key: Key): Promise<TensorDict<Out>> => {
  const result = await policy.act(state, key)()
  if (isLeft(result)) throw new Error(`${policy.name} failed: ${result.left.reason}`)
  return result.right
}

/**
 * Runs `f` on a new state and the policy's action, and frees both. `keep` registers other values to
 * free.
 */
const withAction = <In, Out>(
  { policy, state: fresh }: PolicySample<In, Out>,
  key: Key,
  f: (state: TensorDict<In>, action: TensorDict<Out>, keep: <T>(value: T) => T) => void | Promise<void>,
): Promise<void> =>
  withoutLeaks(async () => {
    const held = own(fresh())
    const kept: unknown[] = []
    const keep = <T>(value: T): T => {
      kept.push(value)
      return value
    }
    try {
      await f(held.value, keep(await acted(policy, held.value, key)), keep)
    } finally {
      discard(kept, held.value)
      held.release()
    }
  })

const requireSame = (
  what: string,
  [actual, expected]: readonly [TensorDict, TensorDict],
  tolerance: CloseTolerance,
): void => {
  const problems = tensorDictProblems(actual, expected, tolerance)
  require(problems.length === 0, () => `${what}:\n${listed(problems)}`)
}

const raggedAt = (action: TensorDict, path: readonly string[]): Ragged | undefined => {
  const entry = find(action, path)
  return entry !== undefined && '_tag' in entry && entry._tag === 'Ragged' ? entry : undefined
}

/**
 * Returns the problem if ids and log-probabilities do not match, or a log-probability is invalid.
 */
const alignmentProblem = (action: TensorDict): string | undefined => {
  const [ids, logProbs] = [raggedAt(action, ['tokens', 'response']), raggedAt(action, ['logProbs', 'response'])]
  if (ids === undefined && logProbs === undefined) return undefined
  if (ids === undefined) return 'logProbs.response without tokens.response'
  if (logProbs === undefined) return 'tokens.response without logProbs.response'
  const rows = raggedRows(logProbs)
  for (const [i, row] of raggedRows(ids).entries()) {
    const numbers = rows[i] ?? []
    if (row.length !== numbers.length) return `row ${i}: ${numbers.length} log-probabilities for ${row.length} ids`
    const t = numbers.findIndex((x) => !(x <= 0))
    if (t >= 0) return `row ${i}: the log-probability of id ${t} is ${numbers[t]}, not at most 0`
  }
  return undefined
}

const readable = <In, Out>(sample: PolicySample<In, Out>): PolicySample<In, Out> =>
  shown(sample, () => `${sample.policy.name} with ${textOfMade(sample.state)}`)

const lawOf =
  <In, Out>(samples: fc.Arbitrary<PolicySample<In, Out>>, numRuns: number) =>
  (name: string, check: (sample: PolicySample<In, Out>, key: Key) => Promise<void>): Law => ({
    name,
    check: () => fc.assert(fc.asyncProperty(samples.map(readable), anyKey, check), { numRuns }),
  })

/**
 * Returns the laws of a policy: determinism by key, purity, batch independence (for policies that
 * promise it), spec soundness, one log-probability per id, no leaked tensors.
 *
 * @example
 * policyLaws(fc.constant({ policy: scriptedTextPolicy({ answers: () => 'four' }), state: () => TensorDict({}, [2]), spec: textActionSpec })).length // 6
 */
export const policyLaws = <In, Out>(samples: fc.Arbitrary<PolicySample<In, Out>>, numRuns = 10): readonly Law[] => {
  const law = lawOf(samples, numRuns)
  return [
    law('determinism: equal states and keys give equal actions', (sample, key) =>
      withAction(sample, key, async (state, action, keep) => {
        const again = keep(await acted(sample.policy, state, key))
        requireSame('the second action differs', [again, action], EXACT)
      }),
    ),
    law('purity: the state is not changed', (sample, key) =>
      withAction(sample, key, (state) => {
        require(!tensorsOf(state).some((x) => x.isDisposed), () => 'a tensor of the state was freed')
        const fresh = own(sample.state())
        try {
          requireSame('the state was changed', [state, fresh.value], EXACT)
        } finally {
          fresh.release()
        }
      }),
    ),
    law('rows: the answer to an element does not depend on the rest of the batch', (sample, key) =>
      withAction(sample, key, async (state, action, keep) => {
        if (sample.rows === 'unpromised') return
        for (let i = 0; i < (state.batchShape[0] ?? 0); i++) {
          const alone = keep(scope(() => take(state, new Array<number>(i + 1).fill(i)))) // no other element is there
          const answer = keep(await acted(sample.policy, alone, key))
          const [got, expected] = [keep(scope(() => take(answer, [i]))), keep(scope(() => take(action, [i])))]
          requireSame(`element ${i} without the others differs`, [got, expected], sample.tolerance ?? EXACT)
        }
      }),
    ),
    law('spec soundness: every action matches the spec, with one entry per element', (sample, key) =>
      withAction(sample, key, (state, action) => {
        const result = refine(sample.spec, action, sample.policy.name)
        require(!isLeft(result), () => `the action: ${isLeft(result) ? result.left.problems.join('; ') : ''}`)
        require(action.batchShape.join() === state.batchShape.join(), () =>
          `the action has batch shape [${action.batchShape.join(', ')}], the state [${state.batchShape.join(', ')}]`)
      }),
    ),
    law('alignment: every id has one log-probability', (sample, key) =>
      withAction(sample, key, (_, action) => {
        const problem = alignmentProblem(action)
        require(problem === undefined, () => `the action: ${problem}`)
      }),
    ),
    law('memory: no tensors are left after state and action are freed', (sample, key) =>
      withAction(sample, key, (_, action) => {
        toNested(action) // reads all of it
      }),
    ),
  ]
}
