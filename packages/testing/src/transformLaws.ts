/** The laws of transforms. */
import type { Key } from '@tandem-rl/base'
import { discard, liveTensors, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { isLeft, isRight } from 'fp-ts/lib/Either.js'
import { type Added, compose, identity, type Transform } from 'tandem-rl'
import type { EnvSpecs } from 'tandem-rl/envs'
import { merge, refine, type Spec, type TensorDict, take, toNested } from 'tandem-rl/tensordict'
import { anyKey } from './arbitraries.js'
import { type Law, require } from './law.js'
import { listed, tensorDictProblems } from './sameTensorDict.js'
import { shown } from './shown.js'

/** The inputs for a transform. Each field makes new values; the caller owns their tensors. */
export interface TransformSample {
  /** Specs of the inner environment. */
  readonly inner: EnvSpecs
  /** Makes a state as returned by `reset` of the inner environment. */
  readonly state: () => TensorDict
  /** Makes an action of a policy for the environment with the transform. */
  readonly action: () => TensorDict
  /** Makes a state as returned by `step` of the inner environment. */
  readonly next: () => TensorDict
}

// The kit uses transforms through their run-time contract; their schemas do not matter to the laws.
type AnyTransform = Transform<unknown, never, unknown, unknown, never>

/** Erases the types of a transform, for the kit. Counterexamples show its name. */
export const erased = <S, In, Out, Inner, Outer>(t: Transform<S, In, Out, Inner, Outer>): AnyTransform =>
  shown(t, () => t.name) as unknown as AnyTransform // the kit passes on the states that the transform made, and TensorDicts of the sample

interface Episode {
  readonly reset: TensorDict
  readonly full: TensorDict
  readonly next: TensorDict
}

const rightOf = <T>(
  result:
    | { readonly _tag: 'Left'; readonly left: { readonly reason?: string } }
    | { readonly _tag: 'Right'; readonly right: T },
): T => {
  if (result._tag === 'Left') throw new Error(`the transform failed: ${JSON.stringify(result.left)}`)
  return result.right
}

/** New values of a sample. */
interface Values {
  readonly state: TensorDict
  readonly action: TensorDict
  readonly next: TensorDict
  /** Registers a value whose tensors are freed after the check, whether it passes or fails. */
  readonly freeLater: <T>(value: T) => T
}

/** Runs one reset and one step, like an environment with the transform. */
const play = async (t: AnyTransform, sample: Values, key: Key): Promise<Episode> => {
  const { freeLater } = sample
  const [added, s1]: Added<unknown, unknown> = freeLater(
    rightOf(await t.reset(sample.state as never, t.initial, key)()),
  )
  const reset = merge(sample.state, added)
  const inner = freeLater(rightOf(t.inverse(sample.action as never, reset as never)))
  const full = merge(sample.action, inner)
  const [later]: Added<unknown, unknown> = freeLater(
    rightOf(await t.step(sample.next as never, { previous: reset, action: full }, s1)()),
  )
  return { reset, full, next: merge(sample.next, later) }
}

/**
 * Runs a check on new values of a sample, and frees everything, even if it throws. Throws if
 * tensors are leaked.
 */
const withSample = async (sample: TransformSample, check: (values: Values) => Promise<void>): Promise<void> => {
  const before = liveTensors().count
  const made: unknown[] = []
  const freeLater = <T>(value: T): T => {
    made.push(value)
    return value
  }
  const values = { state: sample.state(), action: sample.action(), next: sample.next() }
  const held = own(Object.values(values))
  try {
    await check({ ...values, freeLater })
  } finally {
    discard(made)
    held.release()
  }
  const left = liveTensors().count - before
  require(left === 0, () => `${left} tensors leaked after everything was freed`)
}

const sameEpisodes = (a: Episode, b: Episode): void => {
  for (const part of ['reset', 'full', 'next'] as const) {
    const problems = tensorDictProblems(a[part], b[part])
    require(problems.length === 0, () => `${part} differs:\n${listed(problems)}`)
  }
}

const rowOf = (td: TensorDict, i: number): TensorDict => scope(() => take(td, [i]))

const conforms = (td: TensorDict, spec: Spec, what: string): void => {
  const result = refine(spec, td, what)
  if (isLeft(result)) throw new Error(`${what} does not match its spec: ${result.left.problems.join('; ')}`)
}

/**
 * Returns the laws of a kind of transform. `transforms` draws transforms, and `samples` draws
 * inputs for them.
 *
 * Laws: purity (equal inputs give equal outputs and are not changed), spec soundness, identity,
 * associativity, rows (no element depends on the rest of the batch), memory.
 *
 * @example
 * transformLaws(fc.constant(erased(StepCounter({ maxSteps: 2 }))), fc.constant({})).map((law) => law.name.split(':')[0])[0] // 'purity'
 */
export const transformLaws = (
  transforms: fc.Arbitrary<AnyTransform>,
  samples: fc.Arbitrary<TransformSample>,
  numRuns = 20,
): readonly Law[] => {
  const law = (name: string, check: (t: AnyTransform, sample: TransformSample, key: Key) => Promise<void>): Law => ({
    name,
    check: () => fc.assert(fc.asyncProperty(transforms, samples, anyKey, check), { numRuns }),
  })
  const wrapped =
    (change: (t: AnyTransform) => AnyTransform) => async (t: AnyTransform, sample: TransformSample, key: Key) =>
      withSample(sample, async (values) => {
        const [plain, other] = [await play(t, values, key), await play(change(t), values, key)]
        sameEpisodes(plain, other)
      })
  return [
    law('purity: equal inputs give equal outputs and are not changed', (t, sample, key) =>
      withSample(sample, async (values) => {
        const given = [values.state, values.action, values.next]
        const before = given.map(toNested)
        const [first, second] = [await play(t, values, key), await play(t, values, key)]
        sameEpisodes(first, second)
        const after = given.map(toNested)
        require(JSON.stringify(before) === JSON.stringify(after), () => 'an input was changed')
      }),
    ),
    law('spec soundness: states and actions match the specs', (t, sample, key) =>
      withSample(sample, async (values) => {
        const promised = t.spec(sample.inner)
        require(isRight(promised), () => `the transform refuses the sample's specs: ${JSON.stringify(promised)}`)
        const episode = await play(t, values, key)
        if (isRight(promised)) {
          conforms(episode.reset, promised.right.observation, 'the state after reset')
          conforms(episode.next, promised.right.observation, 'the state after step')
          conforms(values.action, promised.right.action, 'the action of the sample')
          conforms(episode.full, sample.inner.action, 'the action for the environment inside')
        }
      }),
    ),
    law(
      'identity: composing with the identity on the inside changes nothing',
      wrapped((t) => erased(compose(identity, t))),
    ),
    law(
      'identity: composing with the identity on the outside changes nothing',
      wrapped((t) => erased(compose(t, identity))),
    ),
    law('rows: an element gives the same result alone and in a batch', (t, sample, key) =>
      withSample(sample, async (values) => {
        const whole = await play(t, values, key)
        const row = (td: TensorDict, i: number): TensorDict => values.freeLater(rowOf(td, i))
        for (let i = 0; i < (values.state.batchShape[0] ?? 0); i++) {
          const [state, action, next] = [row(values.state, i), row(values.action, i), row(values.next, i)]
          const alone = await play(t, { ...values, state, action, next }, key)
          sameEpisodes(alone, { reset: row(whole.reset, i), full: row(whole.full, i), next: row(whole.next, i) })
        }
      }),
    ),
    law('associativity: grouping changes nothing', async (t, sample, key) =>
      withSample(sample, async (values) => {
        const left = erased(compose(compose(identity, t), identity))
        const right = erased(compose(identity, compose(t, identity)))
        const [first, second] = [await play(left, values, key), await play(right, values, key)]
        sameEpisodes(first, second)
      }),
    ),
  ]
}
