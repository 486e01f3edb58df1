/** For every law of every kit there is a mistake that this law reports. */
import { textOf } from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type Env, type Policy, type Task, type TokenAction, type TokenPrompt, transform } from 'tandem-rl'
import { endedRows } from 'tandem-rl/envs'
import type { Answered, Reward, Scored } from 'tandem-rl/rewards'
import {
  assign,
  data,
  dataSpec,
  type Entries,
  exclude,
  get,
  meta,
  ragged,
  type Spec,
  TensorDict,
  tensorSpec,
} from 'tandem-rl/tensordict'
import { describe, expect, it } from 'vitest'
import { useEngine } from '../../../test/kit/engine.js'
import { envLaws } from '../src/envLaws.js'
import type { Law } from '../src/law.js'
import { policyLaws, tokenActionSpec } from '../src/policyLaws.js'
import { rewardLaws } from '../src/rewardLaws.js'
import { type ScriptedState, scriptedEnv } from '../src/scriptedEnv.js'
import { scriptedPolicy } from '../src/scriptedPolicy.js'
import { erased, transformLaws } from '../src/transformLaws.js'
import { anyTransformSample } from '../src/transformSamples.js'

useEngine()

let calls = 0

/** The number of this call: what nothing pure may give. */
const notice = (): number => ++calls

// Transforms

type X = { readonly x: tf.Tensor }

const adding = (adds: Spec, entries: (td: TensorDict<X>) => Entries): readonly Law[] => {
  const run = (td: TensorDict<X>) => TE.right([scope(() => TensorDict(entries(td), td.batchShape)), null] as const)
  const subject = transform<null, X, unknown>({ name: 'subject', initial: null, adds, reset: run, step: run })
  const samples = anyTransformSample(
    { observation: { x: tensorSpec('float32') }, action: {} },
    { batchSizes: fc.integer({ min: 2, max: 3 }) },
  )
  return transformLaws(fc.constant(erased(subject)), samples, 5)
}

const y = tensorSpec('float32')
const noticing = adding({ y }, (td) => ({ y: tf.fill([...td.batchShape], notice()) }))

const transformFaults: Readonly<Record<string, readonly Law[]>> = {
  'purity: equal inputs give equal outputs and are not changed': noticing,
  'spec soundness: states and actions match the specs': adding({ y, z: y }, (td) => ({
    y: tf.neg(get(td, 'x')),
  })),
  'identity: composing with the identity on the inside changes nothing': noticing,
  'identity: composing with the identity on the outside changes nothing': noticing,
  'rows: an element gives the same result alone and in a batch': adding({ y }, (td) => ({
    y: tf.fill([...td.batchShape], td.batchShape[0]!),
  })),
  'associativity: grouping changes nothing': noticing,
}

// Environments

type Scripted = Env<ScriptedState, TokenAction>

const acting = (change: (env: Scripted) => Scripted): readonly Law[] => {
  const env = change(scriptedEnv([{ rewards: [1, 2] }, { rewards: [0, 1], end: 'truncated' }]))
  const act = () => TensorDict({ tokens: { response: ragged('int32', [[5], [6]]) } }, [2]) as never // all that is read
  return envLaws(fc.constant({ env, act, steps: 2 }), 3)
}

/** The environment with changed next states. */
const stepping = (f: (next: TensorDict) => TensorDict) =>
  acting((env) => ({ ...env, step: (state, action) => TE.map(f as never)(env.step(state, action)) as never })) // or a fault under test

const envFaults: Readonly<Record<string, readonly Law[]>> = {
  'replay: equal keys and actions give equal states': stepping((next) => assign(next, { turns: data([notice(), 1]) })),
  'spec soundness: every state matches the specs': acting((env) => ({
    ...env,
    specs: { ...env.specs, observation: { ...env.specs.observation, score: dataSpec('number') } },
  })),
  'purity: a step does not change the previous state': acting((env) => ({
    ...env,
    step: (state, action) => {
      const ids = get(state, 'tokens', 'prompt').values as Int32Array // ragged int32 values are one
      ids.fill(9)
      return env.step(state, action)
    },
  })),
  'outcome: done equals terminated or truncated': stepping((next) => {
    const done = (next as TensorDict<{ readonly done: tf.Tensor }>).entries.get('done') // every stepped state has one
    if (done instanceof tf.Tensor) done.dispose()
    return assign(next, { done: tf.zeros([2], 'bool') })
  }),
  'fork: two continuations of one state do not affect each other': stepping((next) =>
    assign(next, { turns: data([notice(), 1]) }),
  ),
  'concurrency: concurrent conversations do not affect each other': stepping((next) =>
    assign(next, { turns: data([notice(), 1]) }),
  ),
  'storage: a stored and restored state continues in the same way': stepping((next) =>
    assign(next, { socket: meta(notice) }),
  ),
  'ends: ended episodes stay ended, and the others continue without them': acting((env) => ({
    ...env,
    step: (state, action) => {
      const before = exclude(state, 'turns', 'episode') as TensorDict // begins again at every step
      const again = assign(before, {
        turns: data([0, 0]),
        episode: data([0, 1]),
      }) as unknown as TensorDict<ScriptedState> // of the keys that a step reads, two are other ones
      return env.step(endedRows(state, 'done').includes(true) ? again : state, action)
    },
  })),
  'pay: ended episodes get no further reward and keep their end flags': stepping((next) =>
    assign(next, { reward: tf.ones([2]) }),
  ),
}

// Rewards

/** Knows the answer 4 at the end of a reply. */
const fair: Reward = {
  name: 'subject',
  partNames: ['length'],
  range: [0, 1],
  score: ({ task, history }) => {
    const text = textOf(history.messages.last()!)
    const right = text === `four: ${task.answer}`
    return { reward: right ? 1 : 0, success: right, parts: { length: text.length } }
  },
}

const rewarding = (reward: Reward, limitMs?: number): readonly Law[] => {
  const task = { id: 'a', query: 'What is 2 + 2?', answer: '4' }
  const sample = { reward, task, reply: (answer: string) => `four: ${answer}`, gold: '4', worthless: ['five'] }
  return rewardLaws(fc.constant(sample), { numRuns: 3, longest: 64, ...(limitMs !== undefined && { limitMs }) })
}

/** The reward with changed scores. */
const scoring = (change: (score: Scored, answered: Answered) => Scored): readonly Law[] =>
  rewarding({ ...fair, score: (answered) => change(fair.score(answered), answered) })

const rewardFaults: Readonly<Record<string, readonly Law[]>> = {
  'determinism: equal answers score equally': scoring((score) => ({ ...score, parts: { length: notice() } })),
  'range: rewards are within the stated range': scoring((score) => ({ ...score, reward: 2 * score.reward })),
  'parts: every score has the named parts': scoring(({ reward, success }) => ({ reward, success, parts: {} })),
  'gold: the right answer gets full marks': scoring((score) => ({ ...score, reward: 0 })),
  'nothing: no answer and a worthless one get nothing': scoring((score) => ({ ...score, reward: 1 })),
  'hostile: no text and no list of candidates solves the task': scoring((score) => ({ ...score, success: true })),
  'purity: task and conversation are not changed': scoring((score, { task }) => {
    const seen = task as Task & { seen?: boolean } // the fault under test writes where it may not
    seen.seen = true
    return score
  }),
  'time: long answers take bounded time': rewarding(
    {
      ...fair,
      score: (answered) => {
        const end = performance.now() + 2
        while (performance.now() < end); // too long
        return fair.score(answered)
      },
    },
    1,
  ),
}

// Policies

type Act = Policy<TokenPrompt, TokenAction>['act']

const answering = (change: (act: Act) => Act, spec: Spec = tokenActionSpec): readonly Law[] => {
  const { act } = scriptedPolicy({ answers: () => [5, 6] })
  const state = () => TensorDict({ tokens: { prompt: ragged('int32', [[1], [2]]), spans: data([[], []]) } }, [2])
  return policyLaws(fc.constant({ policy: { name: 'subject', act: change(act) }, state, spec }), 3)
}

/** The policy with changed actions. */
const saying = (f: (action: TensorDict<TokenAction>) => TensorDict): readonly Law[] =>
  answering((act) => (state, key) => async () => {
    const action = await act(state, key)()
    return E.isLeft(action) ? action : E.right(f(action.right) as TensorDict<TokenAction>) // or a fault under test
  })

const versions = (action: TensorDict, version: () => number): TensorDict =>
  assign(action, { policyVersion: data(Array.from({ length: action.batchShape[0]! }, version)) })

const leaked: tf.Tensor[] = []

const policyFaults: Readonly<Record<string, readonly Law[]>> = {
  'determinism: equal states and keys give equal actions': saying((action) => versions(action, notice)),
  'purity: the state is not changed': answering((act) => (state, key) => {
    const ids = get(state, 'tokens', 'prompt').values as Int32Array // ragged int32 values are one
    ids.fill(9)
    return act(state, key)
  }),
  'rows: the answer to an element does not depend on the rest of the batch': saying((action) =>
    versions(action, () => action.batchShape[0]!),
  ),
  'spec soundness: every action matches the spec, with one entry per element': answering((act) => act, {
    ...tokenActionSpec,
    score: dataSpec('number'),
  }),
  'alignment: every id has one log-probability': saying((action) =>
    assign(action, { logProbs: { response: ragged('float32', new Array(action.batchShape[0]).fill([-1])) } }),
  ),
  'memory: no tensors are left after state and action are freed': saying((action) => {
    leaked.push(tf.keep(tf.zeros([1])))
    return action
  }),
}

describe.each([
  ['transformLaws', adding({ y }, (td) => ({ y: tf.neg(get(td, 'x')) })), transformFaults],
  ['envLaws', acting((env) => env), envFaults],
  ['rewardLaws', rewarding(fair), rewardFaults],
  ['policyLaws', answering((act) => act), policyFaults],
] as const)('%s', (_, good, faults) => {
  it('has no law without a mistake that it is to report', () => {
    expect(Object.keys(faults)).toEqual(good.map(({ name }) => name))
  })

  it.each(good.map((law) => [law.name, law] as const))('%s: holds for what keeps it', async (__, law) => {
    await law.check()
  })

  it.each(Object.entries(faults))('%s: reports what breaks it', async (name, laws) => {
    tf.engine().startScope() // tensors that a failing law leaves
    const law = laws.find((each) => each.name === name)!
    await expect(async () => law.check()).rejects.toThrow('Property failed after 1 tests')
    tf.engine().endScope()
    tf.dispose(leaked.splice(0))
  })
})
