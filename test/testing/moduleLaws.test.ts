/** The laws of modules hold for modules of every kind, and the kit finds what breaks them. */
import * as tf from '@tensorflow/tfjs'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { type Key, keyFromSeed, normals } from '../../src/core/key.js'
import { branchOn } from '../../src/data/mod/branch.js'
import { identityMod, parallelOf } from '../../src/data/mod/combine.js'
import { type AnyMod, asyncMod, mod, randomMod } from '../../src/data/mod/mod.js'
import { remapIn, remapOut } from '../../src/data/mod/remap.js'
import { pick } from '../../src/data/mod/subgraph.js'
import { type Meta, meta } from '../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { checkLaws } from '../../src/testing/law.js'
import { type ModuleSample, moduleLaws } from '../../src/testing/moduleLaws.js'
import { useEngine } from '../kit/engine.js'

useEngine()

const NAMES = ['a', 'b', 'c', 'd', 'e'] as const
type Name = (typeof NAMES)[number]
type Node = { readonly n: TensorDict<{ readonly [K in Name]: tf.Tensor }> }

const name = fc.constantFrom(...NAMES)
const names = fc.uniqueArray(name, { minLength: 1, maxLength: 2 })

/** A module that adds tensors up, wherever they are. */
const adder = (id: number, inputs: readonly Name[], outputs: readonly Name[]): AnyMod =>
  mod({
    name: `add ${id}`,
    inKeys: inputs.map((key) => ['n', key] as const) as never, // some of the keys
    outKeys: outputs.map((key) => ['n', key] as const) as never,
    run: (td: TensorDict<Node>) => {
      const total = inputs.reduce<tf.Tensor>((sum, key) => tf.add(sum, get(td, 'n', key)), tf.scalar(id))
      return E.right({ n: Object.fromEntries(outputs.map((key) => [key, tf.mul(total, 2)])) })
    },
  })

/** A module that writes random numbers. */
const noise = (id: number, output: Name): AnyMod =>
  randomMod({
    name: `noise ${id}`,
    keyAt: 'rng',
    inKeys: ['rng'],
    outKeys: [['n', output]] as never, // one of the names
    run: (td: TensorDict<{ readonly rng: Meta<Key> }>) =>
      E.right({ n: { [output]: tf.tensor1d(normals(get(td, 'rng').value, 2)) } }),
  })

const waiting = (id: number, input: Name, output: Name): AnyMod =>
  asyncMod({
    name: `wait ${id}`,
    inKeys: [['n', input]] as never, // one of the names
    outKeys: [['n', output]] as never,
    run: (td: TensorDict<Node>) => async () => {
      await Promise.resolve()
      return E.right({ n: { [output]: tf.neg(get(td, 'n', input)) } })
    },
  })

const leaf: fc.Arbitrary<AnyMod> = fc.oneof(
  fc.tuple(fc.nat(), names, names).map((parts) => adder(...parts)),
  fc.tuple(fc.nat(), name).map((parts) => noise(...parts)),
  fc.tuple(fc.nat(), name, name).map((parts) => waiting(...parts)),
)

// The drawn modules have keys that the compiler does not know.
const untyped = { remapIn, remapOut, pick, branchOn } as unknown as {
  readonly remapIn: (mod: AnyMod, moves: readonly unknown[]) => AnyMod
  readonly remapOut: (mod: AnyMod, moves: readonly unknown[]) => AnyMod
  readonly pick: (mod: AnyMod, ...keys: readonly unknown[]) => AnyMod
  readonly branchOn: (parts: unknown) => AnyMod
}

const anyMod: fc.Arbitrary<AnyMod> = fc.oneof(
  { weight: 3, arbitrary: leaf },
  fc.constant<AnyMod>(identityMod),
  fc.nat().map((id) => parallelOf([adder(id, ['a'], ['b']), noise(id, 'c'), waiting(id, 'a', 'd')])),
  fc.nat().map((id) => untyped.pick(adder(id, ['a', 'b'], ['c', 'd']), ['n', 'd'])),
  fc.nat().map((id) =>
    untyped.branchOn({
      name: `branch ${id}`,
      keyAt: 'mode',
      cases: { x: adder(id, ['a'], ['b']), y: noise(id, 'b') },
    }),
  ),
  fc.tuple(leaf, name).map(([inner, to]) => untyped.remapOut(inner, [{ inner: inner.outKeys[0], outer: ['m', to] }])),
  fc.nat().map((id) => untyped.remapIn(adder(id, ['a', 'b'], ['e']), [{ inner: ['n', 'a'], outer: 'top' }])),
)

const td = (mode: 'x' | 'y', seed: number) => (): TensorDict =>
  TensorDict(
    {
      n: Object.fromEntries(NAMES.map((key, i) => [key, tf.tensor1d([i, seed % 7])])),
      top: tf.tensor1d([1, 2]),
      rng: meta(keyFromSeed(seed)),
      mode: meta(mode),
      other: { thing: tf.zeros([2]) },
    },
    [2],
  )

const distinctStreams = (mods: readonly AnyMod[]): boolean => {
  const streams = mods.flatMap((each) => each.streams.map((stream) => stream.name))
  return new Set(streams).size === streams.length
}

const samples: fc.Arbitrary<ModuleSample> = fc
  .tuple(fc.array(anyMod, { minLength: 1, maxLength: 4 }), fc.constantFrom('x', 'y'), fc.nat(1000))
  .filter(([mods]) => distinctStreams(mods))
  .map(([mods, mode, seed]) => ({ mods, td: td(mode as 'x' | 'y', seed) })) // one of the two

describe('modules', () => checkLaws(it, moduleLaws(samples, 60)))

/** The numbers of the laws that a module breaks. */
const brokenLaws = async (broken: AnyMod): Promise<readonly number[]> => {
  const sample = fc.constant<ModuleSample>({ mods: [adder(1, ['a'], ['b']), broken], td: td('x', 1) })
  const outcomes = await Promise.all(
    moduleLaws(sample, 3).map(async ({ number, check }) => {
      try {
        await check()
        return []
      } catch {
        return [number]
      }
    }),
  )
  return outcomes.flat()
}

describe('the kit', () => {
  it('finds modules that remember, that change what they read, and that leave tensors', async () => {
    let calls = 0
    const remembers = mod({ name: 'remembers', inKeys: [], outKeys: ['x'], run: () => E.right({ x: meta(calls++) }) })
    expect(await brokenLaws(remembers)).toContain(92)
    const changes = mod({
      name: 'changes',
      inKeys: ['list'],
      outKeys: [],
      run: (inputs: TensorDict<{ readonly list: Meta<number[]> }>) => {
        get(inputs, 'list').value.push(1)
        return E.right({})
      },
    })
    const sample = fc.constant<ModuleSample>({ mods: [changes], td: () => TensorDict({ list: meta([0]) }, []) })
    await expect(moduleLaws(sample, 1)[0]!.check()).rejects.toMatchObject({
      cause: new Error('the input was changed'),
    })
    const kept: tf.Tensor[] = []
    const leaks = asyncMod({
      name: 'leaks',
      inKeys: [],
      outKeys: ['x'],
      run: () => async () => {
        kept.push(tf.scalar(1))
        return E.right({ x: meta(1) })
      },
    })
    expect(await brokenLaws(leaks)).toEqual(expect.arrayContaining([88, 89, 92]))
    tf.dispose(kept)
  })
})

describe('random streams', () => {
  it('law 92: streams are different for different names and for different keys, and none is another one shifted', () => {
    const run = (seed: number, id: number): string => {
      const key = noise(id, 'a')
      if (key.kind._tag !== 'Leaf') throw new Error('it is a leaf')
      const result = key.kind.call(TensorDict({ rng: meta(keyFromSeed(seed)) }, [2]))
      if (typeof result === 'function' || E.isLeft(result)) throw new Error('it gives its outputs at once')
      const drawn = (result.right.n as { readonly a: tf.Tensor }).a // what `noise` writes
      const text = Array.from(drawn.dataSync()).join()
      drawn.dispose()
      return text
    }
    const drawn = [0, 1, 2, 3, 4].flatMap((seed) => [0, 1, 2, 3, 4].map((id) => run(seed, id)))
    expect(new Set(drawn).size).toBe(25)
    expect(new Set(drawn.flatMap((text) => text.split(','))).size).toBe(50)
  })
})
