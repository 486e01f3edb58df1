/** The laws of environments and rewards. */

import fc from 'fast-check'
import { isLeft } from 'fp-ts/lib/Either.js'
import type { Key } from '../core/key.js'
import { mergeSpecs, refine, type Spec } from '../data/spec.js'
import { equals } from '../data/tensorDict/compare.js'
import { format, toNested } from '../data/tensorDict/inspect.js'
import { get, TensorDict } from '../data/tensorDict/tensorDict.js'
import { discard, liveTensors, tensorsOf } from '../engine/scope.js'
import { type Env, type Outcome, outcomeSpec } from '../envs/env.js'
import { anyKey } from './arbitraries.js'
import { type Law, require } from './law.js'
import { listed, tensorDictProblems } from './sameTensorDict.js'
import { shown } from './shown.js'

/** An environment, and actions for it. */
export interface EnvSample<O, A> {
  readonly env: Env<O, A>
  /** The request of the first reset: by default one without entries. */
  readonly request?: () => TensorDict
  /** An action for a state. Tensors that it makes belong to the caller. */
  readonly act: (state: TensorDict<O>, key: Key) => TensorDict<A>
  /** Steps to play. */
  readonly steps: number
}

interface Played {
  readonly states: readonly TensorDict[]
  /** The values of each state when it was returned. */
  readonly values: readonly string[]
}

const valuesOf = (state: TensorDict): string => JSON.stringify(toNested(state))

/** Plays some steps. Everything that was made is in the result or freed. */
const play = async <O, A>({ env, request, act, steps }: EnvSample<O, A>, key: Key): Promise<Played> => {
  const first = await env.reset(request?.() ?? TensorDict({}, [env.batchSize]), key)()
  if (isLeft(first)) throw new Error(`reset failed: ${first.left.reason}`)
  const states: TensorDict[] = [first.right]
  const values = [valuesOf(first.right)]
  let state = first.right
  for (let i = 0; i < steps; i++) {
    const action = act(state, key)
    const next = await env.step(state, action)()
    discard(action, states)
    if (isLeft(next)) throw new Error(`step failed: ${next.left.reason}`)
    states.push(next.right)
    values.push(valuesOf(next.right))
    state = next.right as unknown as TensorDict<O> // a stepped state is a state
  }
  return { states, values }
}

const conforms = (td: TensorDict, spec: Spec, what: string): void => {
  const result = refine(spec, td, what)
  if (isLeft(result)) throw new Error(`${what} does not keep its spec: ${result.left.problems.join('; ')}`)
}

const requireSame = (a: Played, b: Played): void => {
  for (const [i, state] of a.states.entries()) {
    const problems = tensorDictProblems(b.states[i]!, state)
    require(problems.length === 0, () => `state ${i} differs the second time:\n${listed(problems)}`)
  }
}

/** Plays, checks and frees; throws if tensors are left. */
const checked = async <O, A>(
  sample: EnvSample<O, A>,
  key: Key,
  check: (played: Played) => void | Promise<void>,
): Promise<void> => {
  const before = liveTensors().count
  const played = await play(sample, key)
  await check(played)
  discard(played.states)
  const left = liveTensors().count - before
  require(left === 0, () => `${left} tensors live on after all states were freed`)
}

const bools = (td: TensorDict, name: keyof Outcome): readonly boolean[] =>
  Array.from(get(td as TensorDict<Outcome>, name).dataSync(), (x) => x === 1) // a stepped state has an outcome

const readable = <O, A>(sample: EnvSample<O, A>): EnvSample<O, A> =>
  shown(sample, () => `${sample.steps} steps in ${sample.env.name}`)

/**
 * The laws of an environment: replay from the key, states that keep the specs, steps that leave the state before them alone, done =
 * terminated or truncated, no tensor left behind.
 *
 * @example
 * envLaws(fc.constant({ env: ChatEnv({ batchSize: 1 }), act: (state) => state, steps: 0 })).length // 4
 */
export const envLaws = <O, A>(samples: fc.Arbitrary<EnvSample<O, A>>, numRuns = 10): readonly Law[] => {
  const law = (name: string, check: (sample: EnvSample<O, A>, key: Key) => Promise<void>): Law => ({
    name,
    check: () => fc.assert(fc.asyncProperty(samples.map(readable), anyKey, check), { numRuns }),
  })
  return [
    law('replay: equal keys and actions give equal states', (sample, key) =>
      checked(sample, key, async (played) => {
        const again = await play(sample, key)
        requireSame(played, again)
        discard(again.states)
      }),
    ),
    law('spec soundness: every state has what the specs promise', (sample, key) =>
      checked(sample, key, ({ states }) => {
        const { observation } = sample.env.specs
        conforms(states[0]!, observation, 'the state after reset')
        for (const state of states.slice(1))
          conforms(state, mergeSpecs(observation, outcomeSpec), 'the state after step')
      }),
    ),
    law('purity: a step does not change the state before it', (sample, key) =>
      checked(sample, key, async ({ states, values }) => {
        for (const [i, state] of states.entries())
          require(!tensorsOf(state).some((x) => x.isDisposed) && valuesOf(state) === values[i], () =>
            `state ${i} was changed or freed by a later step`)
        if (states.length < 2) return
        const [before] = states
        const action = sample.act(before as TensorDict<O>, key)
        const copy = format(before!)
        const next = await sample.env.step(before as TensorDict<O>, action)()
        require(format(before!) === copy, () => 'the state was changed or freed')
        if (!isLeft(next)) {
          require(equals(next.right, states[1]!), () => 'a second step from the same state went another way')
          discard(next.right, states)
        }
        discard(action, states)
      }),
    ),
    law('outcome: done exactly where terminated or truncated', (sample, key) =>
      checked(sample, key, ({ states }) => {
        for (const state of states.slice(1)) {
          const [terminated, truncated, done] = [
            bools(state, 'terminated'),
            bools(state, 'truncated'),
            bools(state, 'done'),
          ]
          require(done.every((d, i) => d === (terminated[i] === true || truncated[i] === true)), () =>
            'done is not terminated or truncated')
        }
      }),
    ),
  ]
}

/** A reward as its author tests it. */
export interface RewardSample {
  /** The score of a completion for a task's reference answer. */
  readonly score: (completion: string, reference: string) => number
  readonly reference: string
  /** A completion that deserves full marks. */
  readonly gold: string
  readonly fullMarks: number
  /** Completions that deserve nothing: empty, off the point, adversarial. */
  readonly worthless: readonly string[]
}

/** The laws of a reward: full marks for the gold answer, nothing for worthless ones, never more than full marks, equal inputs equal scores. */
export const rewardLaws = (samples: fc.Arbitrary<RewardSample>, numRuns = 100): readonly Law[] => {
  const law = (name: string, check: (sample: RewardSample) => void): Law => ({
    name,
    check: () => {
      fc.assert(
        fc.property(samples, (sample) => {
          check(sample)
        }),
        { numRuns },
      )
    },
  })
  return [
    law('the gold answer scores full marks', ({ score, gold, reference, fullMarks }) => {
      require(score(gold, reference) === fullMarks, () =>
        `the gold answer ${gold} scores ${score(gold, reference)}, not ${fullMarks}`)
    }),
    law('empty and adversarial answers score nothing', ({ score, worthless, reference }) => {
      for (const text of worthless)
        require(score(text, reference) === 0, () => `${JSON.stringify(text)} scores ${score(text, reference)}`)
    }),
    law(
      'the score is a pure number between nothing and full marks',
      ({ score, worthless, gold, reference, fullMarks }) => {
        for (const text of [...worthless, gold]) {
          const value = score(text, reference)
          require(value === score(text, reference), () => `${JSON.stringify(text)} scores differently the second time`)
          require(value >= 0 && value <= fullMarks, () =>
            `${JSON.stringify(text)} scores ${value}, outside 0 .. ${fullMarks}`)
        }
      },
    ),
  ]
}
