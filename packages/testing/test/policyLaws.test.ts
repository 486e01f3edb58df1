/** The kit of policies accepts ours and rejects each kind of fault, by the law that names it. */
import { keyFromSeed, uniformInteger } from '@tandem-rl/base'
import { History, message } from '@tandem-rl/text'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import {
  type Policy,
  type TokenAction,
  type TokenPrompt,
  type TransformersPolicy,
  TransformersWrapper,
} from 'tandem-rl'
import { initialParams } from 'tandem-rl/models'
import { assign, data, exclude, get, ragged, raggedRows, raggedSpec, TensorDict, take } from 'tandem-rl/tensordict'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { brokenLaws } from '../../../test/kit/conversation.js'
import { useEngine } from '../../../test/kit/engine.js'
import { tinyConfig } from '../../../test/kit/models.js'
import { smallPolicy, tokenPrompt } from '../../../test/kit/small.js'
import { checkLaws } from '../src/law.js'
import { historyActionSpec, type PolicySample, policyLaws, textActionSpec, tokenActionSpec } from '../src/policyLaws.js'
import { policyFailure, scriptedHistoryPolicy, scriptedPolicy, scriptedTextPolicy } from '../src/scriptedPolicy.js'

useEngine()

const ALL = ['determinism', 'purity', 'rows', 'spec soundness', 'alignment', 'memory']

type Prompts = readonly (readonly number[])[]

const prompts: fc.Arbitrary<Prompts> = fc.array(
  fc.array(fc.integer({ min: 4, max: 23 }), { minLength: 1, maxLength: 6 }),
  {
    minLength: 2,
    maxLength: 3,
  },
)

/** Samples of a policy that speaks tokens. */
const asked = (policy: Policy<TokenPrompt, TokenAction>, rest: Partial<PolicySample<TokenPrompt, TokenAction>> = {}) =>
  prompts.map((rows) => ({ policy, state: () => tokenPrompt(rows), spec: tokenActionSpec, ...rest }))

describe('policyLaws for scripted policies', () => {
  const letters = scriptedTextPolicy({
    answers: (state, key) => `${get(state, 'text', 'prompt').items.get(0)} ${uniformInteger(key, 1000)}`,
  })
  const messages = scriptedHistoryPolicy({
    answers: (state) => message('assistant', `${get(state, 'history', 'prompt').items.get(0)?.messages.size}`),
  })
  const words = fc.array(fc.string(), { minLength: 1, maxLength: 3 })
  checkLaws((name, check) => it(`tokens: ${name}`, check), policyLaws(asked(smallPolicy())))
  checkLaws(
    (name, check) => it(`text: ${name}`, check),
    policyLaws(
      words.map((texts) => ({
        policy: letters,
        state: () => TensorDict({ text: { prompt: data(texts) } }, [texts.length]),
        spec: textActionSpec,
      })),
    ),
  )
  checkLaws(
    (name, check) => it(`messages: ${name}`, check),
    policyLaws(
      words.map((texts) => ({
        policy: messages,
        state: () =>
          TensorDict({ history: { prompt: data(texts.map((text) => History([message('user', text)]))) } }, [
            texts.length,
          ]),
        spec: historyActionSpec,
      })),
    ),
  )
})

describe('policyLaws for TransformersWrapper', () => {
  let policy: TransformersPolicy
  beforeAll(() => {
    const config = tinyConfig({ vocabularySize: 24, maxPositions: 64, layers: 1 })
    using params = own(scope(() => initialParams(config, keyFromSeed(1), 0.4)))
    policy = TransformersWrapper({ config, params: params.value, sampling: { maxNewTokens: 6 } })
  })
  afterAll(() => policy.release())
  const acting: Policy<TokenPrompt, TokenAction> = { name: 'made later', act: (state, key) => policy.act(state, key) }
  checkLaws(it, policyLaws(asked(acting, { tolerance: { absolute: 1e-5 } }), 6))
})

type Act = Policy<TokenPrompt, TokenAction>['act']

/** The laws that a policy breaks that acts like this around a good one. */
const broken = (
  change: (act: Act) => Act,
  rest: Partial<PolicySample<TokenPrompt, TokenAction>> = {},
): Promise<readonly string[]> => {
  const policy = smallPolicy()
  return brokenLaws(policyLaws(asked({ name: 'changed', act: change(policy.act) }, rest), 4))
}

/** Changes the actions of a policy. */
const changing =
  (f: (action: TensorDict<TokenAction>, state: TensorDict<TokenPrompt>) => TensorDict) =>
  (act: Act): Act =>
  (state, key) =>
  async () => {
    const action = await act(state, key)()
    return E.isLeft(action) ? action : E.right(f(action.right, state) as TensorDict<TokenAction>) // or a fault under test
  }

const stamped = (version: number) => (action: TensorDict<TokenAction>) =>
  assign(action, { policyVersion: data(get(action, 'policyVersion').items.map(() => version)) })

describe('policyLaws', () => {
  it('finds nothing wrong with a policy that keeps its word', async () => {
    expect(await broken((act) => act)).toEqual([])
  })

  it('determinism rejects a policy that counts its calls', async () => {
    let calls = 0
    expect(await broken(changing((action) => stamped(calls++)(action)))).toContain('determinism')
  })

  it('determinism rejects a policy that draws from the global random source', async () => {
    expect(await broken(changing((action) => stamped(Math.random())(action)))).toContain('determinism')
  })

  it('purity rejects a policy that writes into its state', async () => {
    const spoiling = changing((action, state) => {
      const values = get(state, 'tokens', 'prompt').values as Int32Array // ragged int32 values are one
      values.fill(9)
      return action
    })
    expect(await broken(spoiling)).toEqual(['purity'])
  })

  it('purity rejects a policy that frees its state', async () => {
    const state = () => assign(tokenPrompt([[4], [5]]), { x: tf.zeros([2]) })
    const freeing = changing((action, given) => {
      const x = given.entries.get('x')
      if (x instanceof tf.Tensor) x.dispose()
      return action
    })
    expect(await broken(freeing, { state, rows: 'unpromised' })).toContain('purity')
  })

  it('rows rejects a policy whose answers depend on the size of the batch', async () => {
    expect(await broken(changing((action) => stamped(action.batchShape[0]!)(action)))).toEqual(['rows'])
  })

  it('rows rejects a policy whose first element depends on the others, if it promises otherwise', async () => {
    const looking = changing((action, state) => {
      const longest = Math.max(...raggedRows(get(state, 'tokens', 'prompt')).flat())
      return stamped(longest)(action)
    })
    expect(await broken(looking)).toEqual(['rows'])
    expect(await broken(looking, { rows: 'unpromised' })).toEqual([])
  })

  it('rows has the tolerance that the sample states, and no more', async () => {
    const drifting = changing((action) => {
      const drift = 1e-4 * (action.batchShape[0] ?? 0)
      const rows = raggedRows(get(action, 'logProbs', 'response')).map((row) => row.map((x) => x - drift))
      return assign(action, { logProbs: { response: ragged('float32', rows) } })
    })
    expect(await broken(drifting)).toEqual(['rows'])
    expect(await broken(drifting, { tolerance: { absolute: 1e-3 } })).toEqual([])
  })

  it.each<[string, (action: TensorDict<TokenAction>) => TensorDict]>([
    ['that leaves out why it stopped', (action) => exclude(action, 'stopReason')],
    [
      'whose ids are no whole numbers',
      (action) =>
        assign(action, {
          tokens: { response: ragged('float32', raggedRows(get(action, 'tokens', 'response'))) },
        }),
    ],
  ])('spec soundness rejects a policy %s', async (_, change) => {
    expect(await broken(changing(change))).toEqual(['spec soundness'])
  })

  it('spec soundness rejects a policy that answers one element alone', async () => {
    expect(await broken(changing((action) => scope(() => take(action, [0]))))).toContain('spec soundness')
  })

  it('spec soundness rejects a policy that lacks what its own spec has', async () => {
    const spec = { ...tokenActionSpec, refLogProbs: raggedSpec('float32') }
    expect(await broken((act) => act, { spec })).toEqual(['spec soundness'])
  })

  const withLogProbs =
    (f: (row: readonly number[]) => readonly number[]) =>
    (action: TensorDict<TokenAction>): TensorDict =>
      assign(action, {
        logProbs: { response: ragged('float32', raggedRows(get(action, 'logProbs', 'response')).map(f)) },
      })

  it.each<[string, (action: TensorDict<TokenAction>) => TensorDict]>([
    ['one log-probability too few', withLogProbs((row) => row.slice(1))],
    ['probabilities instead of their logs', withLogProbs((row) => row.map(Math.exp))],
    ['a log-probability that is no number', withLogProbs((row) => [Number.NaN, ...row.slice(1)])],
  ])('alignment rejects a policy with %s', async (_, change) => {
    expect(await broken(changing(change))).toEqual(['alignment'])
  })

  it('alignment rejects ids without log-probabilities, and the other way round', async () => {
    for (const key of ['tokens', 'logProbs'] as const) {
      const { [key]: _, ...spec } = tokenActionSpec
      expect(
        await broken(
          changing((action) => exclude(action, key)),
          { spec },
        ),
      ).toEqual(['alignment'])
    }
  })

  it('every law rejects a policy that keeps a tensor to itself', async () => {
    const leaked: tf.Tensor[] = []
    const leaking = changing((action) => {
      leaked.push(tf.keep(tf.zeros([1])))
      return action
    })
    const result = await broken(leaking)
    tf.dispose(leaked)
    expect(result).toEqual(ALL)
  })

  it('every law rejects a policy that fails', async () => {
    const failing = scriptedPolicy({
      answers: [],
      faults: () => ({ _tag: 'Fail', failure: policyFailure('no') }),
    })
    expect(await brokenLaws(policyLaws(asked(failing), 2))).toEqual(ALL)
  })
})
