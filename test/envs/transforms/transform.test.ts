/** The algebra of transforms, on transforms that write down where they were. */
import { keyFromSeed } from '@tandem-rl/base'
import { checkLaws, erased, transformLaws } from '@tandem-rl/testing'
import { liveTensors } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { dataSpec, type Spec, tensorSpec } from '../../../src/data/spec.js'
import { equals } from '../../../src/data/tensorDict/compare.js'
import { toNested } from '../../../src/data/tensorDict/inspect.js'
import { type Data, data } from '../../../src/data/tensorDict/leaf.js'
import { merge } from '../../../src/data/tensorDict/merge.js'
import { find, get, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { type Env, envFailure, nextRequest, REMEMBERED } from '../../../src/envs/base/env.js'
import { ChatEnv } from '../../../src/envs/chatEnv.js'
import { GSM8KRewardParser } from '../../../src/envs/transforms/answerParsers.js'
import { tokenBudget } from '../../../src/envs/transforms/tokenBudget.js'
import { Tokenizer } from '../../../src/envs/transforms/tokenizer.js'
import { append, compose, identity, type Transform, transform } from '../../../src/envs/transforms/transform.js'
import { answered, empty, freeing, itemsAt, refused, tokenizer } from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const key = keyFromSeed(7)

type Out = { readonly out: Data<string> }
type In = { readonly in: Data<string> }
type Tagger = Transform<string, Out, Out, In, In>

const out = (text: string): TensorDict<Out> => TensorDict({ out: data([text]) }, [1])
const act = (text: string): TensorDict<In> => TensorDict({ in: data([text]) }, [1])
const textAt = (td: TensorDict, name: string): string =>
  find(td, [name]) === undefined ? '' : String(itemsAt(td, name)[0])

/** Signs what passes: `a` outside, on the way out; the number of its steps in its state. */
const tagger = (name: string): Tagger =>
  transform<string, Out, Out, In, In>({
    name,
    initial: name,
    adds: { out: dataSpec<string>('string') },
    prime: (request, state) =>
      TE.right([TensorDict({ request: data([textAt(request, 'request') + name]) }, [1]), state]),
    reset: (td, state) => TE.right([out(textAt(td, 'out') + name), `${state}0`]),
    step: (next, _, state) => TE.right([out(`${textAt(next, 'out')}${name}(${state})`), `${state}+`]),
    inverse: (action) => E.right(act(textAt(action, 'in') + name)),
  })

/** Echoes its request; `done` reports nothing. */
const echo: Env<Out, In> = {
  name: 'echo',
  batchSize: 1,
  specs: { observation: { out: dataSpec<string>('string') }, action: { in: dataSpec<string>('string') } },
  reset: (request) => TE.right(merge(request, out(`[${textAt(request, 'request')}]`)) as TensorDict<Out>), // its own entry wins
  step: (state, action) => TE.right(merge(state, out(`<${textAt(action, 'in')}>`)) as never), // no outcome: nobody here reads it
}

const names = fc.constantFrom('a', 'b', 'c')
const taggers = names.map(tagger)

// Casts: the transforms of this file take each other's values, which the erased type does not say.
const playAlone = async (t: Transform<unknown, never, unknown, unknown, never>): Promise<readonly unknown[]> => {
  const [primed] = await answered(t.prime(empty(1), t.initial, key))
  const [added, state] = await answered(t.reset(out('R') as never, t.initial, key))
  const inner = E.toUnion(t.inverse(act('A') as never, added as never))
  const [later, after] = await answered(t.step(out('S') as never, { previous: added, action: act('A') }, state))
  const views = [primed, added, inner, later].map((td) => toNested(td as TensorDict)) // a Left would have no entries, and throw
  return [...views, [state].flat(5), [after].flat(5)]
}

describe('append, around an environment that lacks what the transform needs', () => {
  it('names each missing entry, and the transform that adds it', () => {
    const wrong = [
      [Tokenizer({ tokenizer }), 'text: missing (TemplateTransform adds it)'],
      [GSM8KRewardParser(), 'answer: missing (DataLoadingPrimer adds it); taskId: missing (DataLoadingPrimer adds it)'],
      [tokenBudget({ tokens: 8 }), 'tokens: missing (Tokenizer adds it)'],
    ] as const
    for (const [t, missing] of wrong)
      expect(() => append(erased(t as never))(ChatEnv({ batchSize: 1 }) as never)).toThrow(missing)
  })
})

describe('compose', () => {
  it('is associative, and so is the order of its states', async () => {
    const law = fc.asyncProperty(taggers, taggers, taggers, async (f, g, h) => {
      const [left, right] = [compose(compose(f, g), h), compose(f, compose(g, h))]
      expect(left.name).toBe(right.name)
      expect(await playAlone(erased(left))).toEqual(await playAlone(erased(right)))
    })
    await fc.assert(law)
  })

  it('has the identity as its unit on both sides', async () => {
    const law = fc.asyncProperty(taggers, async (f) => {
      const plain = await playAlone(erased(f))
      const states = (episode: readonly unknown[]): readonly unknown[] =>
        episode.map((view) => (Array.isArray(view) ? view.filter((state) => state !== null) : view))
      expect(states(await playAlone(erased(compose(identity, f))))).toEqual(plain)
      expect(states(await playAlone(erased(compose(f, identity))))).toEqual(plain)
    })
    await fc.assert(law)
  })

  it('goes from the inside out with states, and from the outside in with requests and actions', async () => {
    const [primed, reset, inner, step, states] = await playAlone(erased(compose(tagger('a'), tagger('b'))))
    expect(primed).toEqual({ request: ['ba'] })
    expect(reset).toEqual({ out: ['Rab'] })
    expect(inner).toEqual({ in: ['Aba'] })
    expect(step).toEqual({ out: ['Sa(a0)b(b0)'] })
    expect(states).toEqual(['a0', 'b0'])
  })

  it('around an environment is the same as one transform after the other', async () => {
    const visible = (td: TensorDict): string => textAt(td, 'out')
    const law = fc.asyncProperty(taggers, taggers, fc.integer({ min: 1, max: 3 }), async (f, g, steps) => {
      const [nested, joined] = [pipe(echo, append(f), append(g)), pipe(echo, append(compose(f, g)))]
      let [a, b] = [await answered(nested.reset(empty(1), key)), await answered(joined.reset(empty(1), key))]
      expect(visible(a)).toBe(visible(b))
      for (let i = 0; i < steps; i++) {
        a = (await answered(nested.step(a, act('x')))) as typeof a // a stepped state is a state
        b = (await answered(joined.step(b, act('x')))) as typeof b // likewise
        expect(visible(a)).toBe(visible(b))
      }
    })
    await fc.assert(law)
  })

  const inner = { observation: echo.specs.observation, action: echo.specs.action }
  const samples = fc
    .string()
    .map((text) => ({ inner, state: () => out(text), action: () => act(text), next: () => out(text) }))
  checkLaws(
    it,
    transformLaws(
      fc.tuple(taggers, taggers).map(([f, g]) => erased(compose(f, g))),
      samples,
    ),
  )
  describe('of nothing', () => checkLaws(it, transformLaws(fc.constant(erased(identity)), samples)))
})

describe('append', () => {
  it('the identity changes nothing but what is remembered', async () => {
    const env = append(identity)(echo)
    expect(env.specs).toEqual(echo.specs)
    const [plain, wrapped] = [await answered(echo.reset(empty(1), key)), await answered(env.reset(empty(1), key))]
    expect(equals(TensorDict({ out: get(wrapped, 'out') }, [1]), plain)).toBe(true)
    expect([...wrapped.entries.keys()].sort()).toEqual(['out', REMEMBERED])
  })

  it('one transform used twice remembers twice', async () => {
    const env = pipe(echo, append(tagger('a')), append(tagger('a')), append(tagger('b')))
    const state = await answered(env.reset(empty(1), key))
    expect(toNested(state)[REMEMBERED]).toEqual({
      'echo > a': 'a0',
      'echo > a > a': 'a0',
      'echo > a > a > b': 'b0',
    })
  })

  it('takes its state from the TensorDict: an episode can be forked, and a request carries it on', async () => {
    const env = append(tagger('a'))(echo)
    const state = await answered(env.reset(empty(1), key))
    const [one, two] = [await answered(env.step(state, act('x'))), await answered(env.step(state, act('x')))]
    expect(equals(one, two)).toBe(true)
    const again = await answered(env.reset(nextRequest(one), key))
    expect(toNested(again)[REMEMBERED]).toEqual({ 'echo > a': 'a0+0' })
  })

  const needs = (observation: Spec, action: Spec = {}) =>
    transform({ name: 'picky', initial: null, needs: { observation, action }, adds: {} })

  it('lists what the environment lacks', () => {
    const missing = needs({ out: tensorSpec('int32'), more: dataSpec('string') })
    expect(() => append(missing as Transform<null, unknown, unknown>)(echo)).toThrow(
      /^append: picky does not fit echo: out: .*DataSpec.* is not .*TensorSpec.*; more: missing$/,
    )
    expect(() => append(needs({}, { other: dataSpec('string') }))(echo)).toThrow('other: missing')
  })

  it('a transform that needs what an inner one adds fits only outside of it', () => {
    const adds = transform<null, unknown, unknown>({ name: 'adds', initial: null, adds: { more: dataSpec('string') } })
    const asks = needs({ more: dataSpec('string') })
    expect(pipe(echo, append(adds), append(asks)).name).toBe('echo > adds > picky')
    expect(() => pipe(echo, append(asks), append(adds))).toThrow('more: missing')
    expect(E.isLeft(compose(asks, adds).spec(echo.specs))).toBe(true)
  })
})

describe('tensors', () => {
  type Made = { readonly made: tf.Tensor }
  const made = (): TensorDict<Made> => TensorDict({ made: tf.zeros([1]) }, [1])
  const maker: Transform<null, unknown, Made> = transform<null, unknown, Made>({
    name: 'maker',
    initial: null,
    adds: { made: tensorSpec('float32') },
    reset: () => TE.right([made(), null]),
    step: () => TE.right([made(), null]),
  })
  const refuse = TE.left(envFailure('refuser', 'no'))
  const refuser = transform<null, unknown, unknown>({ name: 'refuser', initial: null, adds: {}, reset: () => refuse })
  const stopper = transform<null, unknown, unknown>({ name: 'stopper', initial: null, adds: {}, step: () => refuse })

  it('that a transform replaces are freed, and those of the state before are not', () =>
    freeing(async (keep) => {
      const env = pipe(echo, append(maker), append(maker))
      const state = keep(await answered(env.reset(empty(1), key)))
      const before = liveTensors().count
      const next = keep(await answered(env.step(state, act('x'))))
      expect(liveTensors().count).toBe(before + 1)
      expect(get(state, 'made').isDisposed).toBe(false)
      expect(get(next, 'made')).not.toBe(get(state, 'made'))
    }))

  it.each([
    ['one after the other', pipe(echo, append(maker), append(refuser))],
    ['composed', pipe(echo, append(compose(maker, refuser)))],
  ])('of a reset that fails are freed: %s', async (_, env) => {
    const before = liveTensors().count
    expect((await refused(env.reset(empty(1), key))).env).toBe('refuser')
    expect(liveTensors().count).toBe(before)
  })

  it.each([
    ['one after the other', pipe(echo, append(maker), append(stopper))],
    ['composed', pipe(echo, append(compose(maker, stopper)))],
  ])('of a step that fails are freed, and those of the state are not: %s', (_, env) =>
    freeing(async (keep) => {
      const state = keep(await answered(env.reset(empty(1), key)))
      const before = liveTensors().count
      await refused(env.step(state, act('x')))
      expect(liveTensors().count).toBe(before)
      expect(get(state, 'made').isDisposed).toBe(false)
    }),
  )

  const thrower = transform<null, unknown, unknown>({
    name: 'thrower',
    initial: null,
    adds: {},
    step: () => {
      throw new Error('no')
    },
  })
  const rejecter = transform<null, unknown, unknown>({
    name: 'rejecter',
    initial: null,
    adds: {},
    step: () => () => Promise.reject(new Error('no')),
  })
  it.each([
    ['throws', pipe(echo, append(maker), append(thrower))],
    ['rejects', pipe(echo, append(maker), append(rejecter))],
    ['throws, composed', pipe(echo, append(compose(maker, thrower)))],
    ['rejects, below others', pipe(echo, append(rejecter), append(maker))],
  ])('of a step that %s are freed, and those of the state are not', (_, env) =>
    freeing(async (keep) => {
      const state = keep(await answered(env.reset(empty(1), key)))
      const before = liveTensors().count
      await expect(env.step(state, act('x'))()).rejects.toThrow('no')
      expect(liveTensors().count).toBe(before)
      expect(get(state, 'made').isDisposed).toBe(false)
    }),
  )

  it('that an inverse makes for the environment inside are freed after the step', () =>
    freeing(async (keep) => {
      const feeder = transform<null, unknown, unknown, Made>({
        name: 'feeder',
        initial: null,
        adds: {},
        inverse: () => E.right(made()),
      })
      const env = append(feeder)(echo)
      const before = liveTensors().count
      const state = keep(await answered(env.reset(empty(1), key)))
      keep(await answered(env.step(state, act('x'))))
      expect(liveTensors().count).toBe(before)
    }))

  it('that were primed for a reset that fails are freed', async () => {
    const primer = transform<null, unknown, unknown>({
      name: 'primer',
      initial: null,
      adds: {},
      prime: () => TE.right([made(), null]),
    })
    const before = liveTensors().count
    await refused(pipe(echo, append(refuser), append(primer)).reset(empty(1), key))
    expect(liveTensors().count).toBe(before)
  })
})
