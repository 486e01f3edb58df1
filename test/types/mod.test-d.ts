/** What the types of modules promise, checked by the compiler. */
import * as tf from '@tensorflow/tfjs'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expectTypeOf, it } from 'vitest'
import { type Key, uniform } from '../../src/core/key.js'
import { branch, branchOn } from '../../src/data/mod/branch.js'
import { identityMod, parallel, seq } from '../../src/data/mod/combine.js'
import { asyncMod, type Mod, type ModFailure, mod, randomMod } from '../../src/data/mod/mod.js'
import { remapIn, remapOut } from '../../src/data/mod/remap.js'
import { runMod, runModAsync } from '../../src/data/mod/run.js'
import { pick, subgraph } from '../../src/data/mod/subgraph.js'
import { type Data, data, type Meta, meta } from '../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../src/data/tensorDict/tensorDict.js'

type Text = { readonly text: Data<string> }
type Reward = { readonly next: TensorDict<{ readonly reward: tf.Tensor }> }

const words = mod({
  name: 'words',
  inKeys: ['text'],
  outKeys: [['stats', 'words']],
  run: (td: TensorDict<Text>) =>
    E.right({ stats: { words: data(get(td, 'text').items.map((t) => t.split(' ').length)) } }),
})
const scale = mod({
  name: 'scale',
  inKeys: [['next', 'reward']],
  outKeys: ['scaled'],
  run: (td: TensorDict<Reward>) => E.right({ scaled: tf.mul(get(td, 'next', 'reward'), 2) }),
})
const isLong = mod({
  name: 'isLong',
  inKeys: [['stats', 'words']],
  outKeys: ['isLong'],
  run: (td: TensorDict<{ readonly stats: TensorDict<{ readonly words: Data<number> }> }>) =>
    E.right({ isLong: data(get(td, 'stats', 'words').items.map((n) => n > 3)) }),
})
const later = asyncMod({
  name: 'later',
  inKeys: ['isLong'],
  outKeys: ['answer'],
  run: (td: TensorDict<{ readonly isLong: Data<boolean> }>) => TE.right({ answer: get(td, 'isLong') }),
})

const td = TensorDict({ text: data(['a b']), next: { reward: tf.zeros([1]), done: data([true]) } }, [1])

const rightOf = <T>(result: E.Either<ModFailure, T>): T => (E.isRight(result) ? result.right : ({} as T)) // types only

describe('mod', () => {
  it('has the schemas of its function', () => {
    expectTypeOf(words).toExtend<Mod<Text, { readonly stats: TensorDict<{ readonly words: Data<number> }> }>>()
  })

  it('names only keys that its function reads and gives, and all of them', () => {
    mod({
      name: 'misspelt input',
      // @ts-expect-error: `txt` is not read
      inKeys: ['txt'],
      outKeys: [],
      run: (_: TensorDict<Text>) => E.right({}),
    })
    mod({
      name: 'missing input',
      // @ts-expect-error: `text` is read
      inKeys: [],
      outKeys: [],
      run: (_: TensorDict<Text>) => E.right({}),
    })
    mod({
      name: 'missing nested input',
      // @ts-expect-error: `next.reward` is read
      inKeys: ['text'],
      outKeys: [],
      run: (_: TensorDict<Text & Reward>) => E.right({}),
    })
    mod({
      name: 'node for a leaf',
      // @ts-expect-error: leaves are named
      inKeys: ['next'],
      outKeys: [],
      run: (_: TensorDict<Reward>) => E.right({}),
    })
    mod({
      name: 'missing output',
      inKeys: [],
      // @ts-expect-error: `y` is given
      outKeys: ['x'],
      run: () => E.right({ x: meta(1), y: meta(2) }),
    })
    mod({
      name: 'misspelt output',
      inKeys: [],
      // @ts-expect-error: `n.z` is not given
      outKeys: [['n', 'z']],
      run: () => E.right({ n: { x: meta(1) } }),
    })
    mod({
      name: 'no entry',
      inKeys: [],
      // @ts-expect-error: nothing that is an entry is given
      outKeys: ['x'],
      // @ts-expect-error: a number is no entry
      run: () => E.right({ x: 1 }),
    })
  })

  it('takes whole nodes of unknown content', () => {
    const node = mod({
      name: 'node',
      inKeys: ['params'],
      outKeys: ['count'],
      run: (inputs: TensorDict<{ readonly params: TensorDict }>) =>
        E.right({ count: meta(get(inputs, 'params').entries.size) }),
    })
    runMod(node, TensorDict({ params: { w: tf.zeros([1]) } }, []))
    // @ts-expect-error: there is no node
    runMod(node, TensorDict({ params: data([1]) }, [1]))
  })
})

describe('runMod', () => {
  it('adds what is written and keeps the rest', () => {
    const result = rightOf(runMod(words, td))
    expectTypeOf(get(result, 'stats', 'words')).toExtend<Data<number>>()
    expectTypeOf(get(result, 'text')).toExtend<Data<string>>()
    expectTypeOf(get(rightOf(runMod(scale, td)), 'next', 'done')).toExtend<Data<boolean>>()
  })

  it('does not compile where an entry is missing or of another kind', () => {
    // @ts-expect-error: Property 'text' is missing
    runMod(words, TensorDict({ txt: data(['a']) }, [1]))
    // @ts-expect-error: Property 'reward' is missing
    runMod(scale, TensorDict({ next: { rewrad: tf.zeros([1]) } }, [1]))
    // @ts-expect-error: numbers are no text
    runMod(words, TensorDict({ text: data([1]) }, [1]))
  })

  it('does not compile for a module that waits', () => {
    const waits = seq(words, isLong, later)
    expectTypeOf(runModAsync(waits, td)).toExtend<TE.TaskEither<ModFailure, TensorDict>>()
    // @ts-expect-error: it waits
    runMod(waits, td)
  })
})

describe('seq', () => {
  it('reads what no earlier module writes, and writes everything', () => {
    const both = seq(words, isLong)
    expectTypeOf(both).toExtend<Mod<Text, { readonly isLong: Data<boolean> }>>()
    const result = rightOf(runMod(seq(words, isLong, scale), td))
    expectTypeOf(get(result, 'isLong')).toExtend<Data<boolean>>()
    expectTypeOf(get(result, 'stats', 'words')).toExtend<Data<number>>()
    expectTypeOf(get(result, 'scaled')).toExtend<tf.Tensor>()
    // @ts-expect-error: Property 'stats' is missing: the order is wrong
    runMod(seq(isLong, words), td)
  })

  it('does not compile where one module writes what the next cannot read', () => {
    const textual = mod({
      name: 'textual',
      inKeys: [],
      outKeys: [['stats', 'words']],
      run: () => E.right({ stats: { words: data(['three']) } }),
    })
    seq(words, isLong)
    // @ts-expect-error: `stats.words` is text
    seq(textual, isLong)
    // @ts-expect-error: `stats.words` is text
    seq(identityMod, textual, isLong)
  })

  it('has the identity as neutral element, and groups as you like', () => {
    expectTypeOf(runMod(seq(identityMod, words, identityMod), td)).toEqualTypeOf(runMod(words, td))
    expectTypeOf(runMod(seq(seq(words, isLong), scale), td)).toEqualTypeOf(runMod(seq(words, seq(isLong, scale)), td))
  })
})

describe('parallel', () => {
  it('reads and writes what both do', () => {
    const result = rightOf(runMod(parallel(words, scale), td))
    expectTypeOf(get(result, 'stats', 'words')).toExtend<Data<number>>()
    expectTypeOf(get(result, 'scaled')).toExtend<tf.Tensor>()
    // @ts-expect-error: isLong does not see what words writes
    runMod(parallel(words, isLong), td)
  })

  it('does not compile where both write one entry', () => {
    // @ts-expect-error: both write `stats.words`
    parallel(words, words)
    // @ts-expect-error: both write `scaled`
    parallel(scale, words, scale)
  })
})

describe('branch', () => {
  it('reads what any case reads, and writes what all write', () => {
    const zero = mod({
      name: 'zero',
      inKeys: [],
      outKeys: [['stats', 'words']],
      run: () => E.right({ stats: { words: data([0]) } }),
    })
    const either = branch({
      name: 'either',
      inKeys: ['flag'],
      choose: (inputs: TensorDict<{ readonly flag: Meta<boolean> }>) => (get(inputs, 'flag').value ? 'count' : 'zero'),
      cases: { count: words, zero },
    })
    const result = rightOf(runMod(either, TensorDict({ text: data(['a']), flag: meta(true) }, [1])))
    expectTypeOf(get(result, 'stats', 'words')).toExtend<Data<number>>()
    // @ts-expect-error: Property 'flag' is missing
    runMod(either, td)
    const named = branchOn({ name: 'named', keyAt: ['how', 'mode'], cases: { count: words, zero } })
    runMod(named, TensorDict({ text: data(['a']), how: { mode: meta('zero' as const) } }, [1]))
    // @ts-expect-error: `none` is no case
    runMod(named, TensorDict({ text: data(['a']), how: { mode: meta('none' as const) } }, [1]))
    // @ts-expect-error: `words` writes other entries than `scale`
    branchOn({ name: 'unequal', keyAt: 'mode', cases: { words, scale } })
    // @ts-expect-error: `none` is no case
    branch({ name: 'unknown', inKeys: [], choose: () => 'none', cases: { words, zero } })
  })
})

describe('remapIn and remapOut', () => {
  it('change the keys of the type', () => {
    const other = remapOut(remapIn(scale, [{ inner: ['next', 'reward'], outer: 'score' }]), [
      { inner: 'scaled', outer: ['out', 'score'] },
    ])
    const result = rightOf(runMod(other, TensorDict({ score: tf.zeros([1]) }, [1])))
    expectTypeOf(get(result, 'out', 'score')).toExtend<tf.Tensor>()
    expectTypeOf(get(result, 'score')).toExtend<tf.Tensor>()
    // @ts-expect-error: Property 'score' is missing
    runMod(other, td)
    const node = remapIn(scale, [{ inner: 'next', outer: ['root', 'later'] }])
    runMod(node, TensorDict({ root: { later: { reward: tf.zeros([1]) } } }, [1]))
    // @ts-expect-error: scale does not read `reward`
    remapIn(scale, [{ inner: 'reward', outer: 'score' }])
    // @ts-expect-error: scale does not write `reward`
    remapOut(scale, [{ inner: 'reward', outer: 'score' }])
  })
})

describe('pick and subgraph', () => {
  it('write what is named', () => {
    const all = seq(words, isLong)
    const result = rightOf(runMod(pick(all, 'isLong'), td))
    expectTypeOf(get(result, 'isLong')).toExtend<Data<boolean>>()
    // @ts-expect-error: not picked
    get(result, 'stats', 'words')
    const part = rightOf(runMod(subgraph(all, ['stats', 'words']), td))
    expectTypeOf(get(part, 'stats', 'words')).toExtend<Data<number>>()
    // @ts-expect-error: not asked for
    get(part, 'isLong')
    // @ts-expect-error: not written
    pick(all, 'text')
    // @ts-expect-error: not written
    subgraph(all, ['stats', 'letters'])
  })
})

describe('randomMod', () => {
  it('draws from an entry that is a key', () => {
    type Inputs = { readonly rng: Meta<Key>; readonly text: Data<string> }
    const run = (inputs: TensorDict<Inputs>) => E.right({ x: meta(uniform(get(inputs, 'rng').value)) })
    const noise = randomMod({ name: 'noise', keyAt: 'rng', inKeys: ['rng', 'text'], outKeys: ['x'], run })
    // @ts-expect-error: Property 'rng' is missing
    runMod(noise, td)
    // @ts-expect-error: `text` is no random key
    randomMod({ name: 'noise', keyAt: 'text', inKeys: ['rng', 'text'], outKeys: ['x'], run })
  })
})
