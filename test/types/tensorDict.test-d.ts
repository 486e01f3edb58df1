/** The types of TensorDicts, leaves and specs, checked by the compiler. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import type * as E from 'fp-ts/lib/Either.js'
import type { List } from 'immutable'
import { describe, expectTypeOf, it } from 'vitest'
import {
  dataSpec,
  type Infer,
  metaSpec,
  raggedSpec,
  refine,
  type SpecMismatch,
  tensorSpec,
} from '../../src/data/spec.js'
import { exclude, rename, select, set } from '../../src/data/tensorDict/edit.js'
import { concat } from '../../src/data/tensorDict/joining.js'
import {
  type Data,
  data,
  type Leaf,
  type Meta,
  meta,
  padRows,
  type Ragged,
  ragged,
  raggedRow,
} from '../../src/data/tensorDict/leaf.js'
import { mapLeaves } from '../../src/data/tensorDict/leaves.js'
import { assign, merge } from '../../src/data/tensorDict/merge.js'
import { repeatInterleave, slice, take } from '../../src/data/tensorDict/selecting.js'
import { splitEach } from '../../src/data/tensorDict/splitting.js'
import { type Entry, find, get, isTensorDict, TensorDict } from '../../src/data/tensorDict/tensorDict.js'

const make = () =>
  TensorDict(
    {
      query: data(['2 + 2?']),
      tokens: { prompt: ragged('int32', [[1]]), full: { mask: ragged('bool', [[1]]) } },
      next: { reward: tf.zeros([1]), inner: { deeper: { deepest: meta(1) } } },
    },
    [1],
  )
const td = make()

describe('get', () => {
  it('has the type of the entry under one to four keys', () => {
    expectTypeOf(get(td, 'query')).toEqualTypeOf<Data<string>>()
    expectTypeOf(get(td, 'tokens', 'prompt')).toEqualTypeOf<Ragged<'int32'>>()
    expectTypeOf(get(td, 'next', 'reward')).toExtend<tf.Tensor>()
    expectTypeOf(get(td, 'tokens', 'full', 'mask')).toEqualTypeOf<Ragged<'bool'>>()
    expectTypeOf(get(td, 'next', 'inner', 'deeper', 'deepest')).toExtend<Meta<number>>()
    expectTypeOf(get(td, 'tokens', 'full')).toExtend<TensorDict<{ readonly mask: Ragged<'bool'> }>>()
  })

  it('does not compile for a misspelt key at any depth, nor below a leaf', () => {
    // @ts-expect-error: `querry` is no key
    get(td, 'querry')
    // @ts-expect-error: `promt` is no key of `tokens`
    get(td, 'tokens', 'promt')
    // @ts-expect-error: `masks` is no key of `tokens.full`
    get(td, 'tokens', 'full', 'masks')
    // @ts-expect-error: a key of another node
    get(td, 'next', 'prompt')
    // @ts-expect-error: nothing is below a leaf
    get(td, 'query', 'items')
    // @ts-expect-error: a TensorDict of unknown keys must be refined first
    get(td as TensorDict, 'query')
  })

  it('is never any, and what is found by an unchecked path must be looked at', () => {
    expectTypeOf(get(td, 'query')).not.toBeAny()
    expectTypeOf(get(td, 'query').items.get(0)).toEqualTypeOf<string | undefined>()
    expectTypeOf(find(td, ['query'])).toEqualTypeOf<Entry | undefined>()
  })
})

describe('edits', () => {
  it('set, exclude, rename and select change the keys that compile', () => {
    const more = set(td, 'score', meta(1))
    expectTypeOf(get(more, 'score')).toExtend<Meta<number>>()
    expectTypeOf(get(more, 'tokens', 'prompt')).toEqualTypeOf<Ragged<'int32'>>()
    expectTypeOf(get(set(td, 'query', meta('x')), 'query')).toExtend<Meta<string>>()
    expectTypeOf(get(rename(td, 'query', 'question'), 'question')).toEqualTypeOf<Data<string>>()
    expectTypeOf(get(select(td, 'query'), 'query')).toEqualTypeOf<Data<string>>()
    // @ts-expect-error: the key is gone
    get(exclude(td, 'query'), 'query')
    // @ts-expect-error: the old name is gone
    get(rename(td, 'query', 'question'), 'query')
    // @ts-expect-error: it was not selected
    get(select(td, 'query'), 'tokens')
  })

  it('only keys that are there are renamed and selected', () => {
    // @ts-expect-error: `querry` is no key
    rename(td, 'querry', 'question')
    // @ts-expect-error: `querry` is no key
    select(td, 'query', 'querry')
  })

  it('merge goes into nodes, and the right side wins at leaves', () => {
    const merged = merge(td, TensorDict({ tokens: { prompt: data([1]), response: ragged('int32', [[2]]) } }, [1]))
    expectTypeOf(get(merged, 'tokens', 'prompt')).toExtend<Data<number>>()
    expectTypeOf(get(merged, 'tokens', 'response')).toEqualTypeOf<Ragged<'int32'>>()
    expectTypeOf(get(merged, 'tokens', 'full', 'mask')).toEqualTypeOf<Ragged<'bool'>>()
    expectTypeOf(get(assign(td, { next: { done: tf.zeros([1]) } }), 'next', 'reward')).toExtend<tf.Tensor>()
  })
})

describe('the batch axis', () => {
  it('operations keep the schema', () => {
    type Same = typeof td
    expectTypeOf(take(td, [0])).toEqualTypeOf<Same>()
    expectTypeOf(slice(td, 0, 1)).toEqualTypeOf<Same>()
    expectTypeOf(repeatInterleave(td, 2)).toEqualTypeOf<Same>()
    expectTypeOf(splitEach(td)).toEqualTypeOf<readonly Same[]>()
    expectTypeOf(concat([td, td])).toEqualTypeOf<Same>()
    expectTypeOf(mapLeaves(td, (leaf) => leaf)).toEqualTypeOf<Same>()
    expectTypeOf(scope(make)).toEqualTypeOf<Same>()
  })
})

describe('variance and immutability', () => {
  it('a TensorDict with more keys is one with fewer, and not the other way round', () => {
    const fewer: TensorDict<{ readonly query: Data<string> }> = td
    // @ts-expect-error: `tokens` is missing
    const more: typeof td = fewer
    // @ts-expect-error: the query is text
    const other: TensorDict<{ readonly query: Data<number> }> = td
    expectTypeOf([fewer, more, other]).toBeArray()
  })

  it('nothing can be assigned', () => {
    // @ts-expect-error: read-only
    td.batchShape = [2]
    // @ts-expect-error: read-only
    td.batchShape.push(1)
    // @ts-expect-error: read-only
    get(td, 'query').items = data(['x']).items
    // @ts-expect-error: values of ragged rows are read-only
    get(td, 'tokens', 'prompt').values[0] = 1
  })

  it('entries are leaves or records of leaves', () => {
    // @ts-expect-error: a number is no leaf
    TensorDict({ x: 5 }, [])
    // @ts-expect-error: neither is a list
    TensorDict({ x: [1, 2] }, [2])
    // @ts-expect-error: nor text in a node
    TensorDict({ x: { y: 'text' } }, [])
    // @ts-expect-error: set takes an entry
    set(td, 'x', { y: meta(1) })
  })
})

describe('leaves', () => {
  it('rows have the array of their type', () => {
    expectTypeOf(raggedRow(ragged('int32', [[1]]), 0)).toEqualTypeOf<Int32Array>()
    expectTypeOf(raggedRow(ragged('float32', [[1]]), 0)).toEqualTypeOf<Float32Array>()
    expectTypeOf(padRows(ragged('bool', [[1]]), { side: 'left', value: 0 }).values).toEqualTypeOf<Uint8Array>()
    expectTypeOf(data(new Set([1])).items).toEqualTypeOf<List<number>>()
  })

  it('types and sides are those there are', () => {
    // @ts-expect-error: no such type
    ragged('float64', [[1]])
    // @ts-expect-error: no such side
    padRows(ragged('int32', [[1]]), { side: 'middle', value: 0 })
    // @ts-expect-error: the fill must be said
    padRows(ragged('int32', [[1]]), { side: 'left' })
  })

  it('an entry is a node or one of four kinds', () => {
    const narrow = (entry: Entry): TensorDict | Leaf => (isTensorDict(entry) ? entry : entry)
    expectTypeOf(narrow).returns.toEqualTypeOf<TensorDict | Leaf>()
    expectTypeOf<Exclude<Entry, TensorDict>>().toEqualTypeOf<Leaf>()
  })
})

describe('specs', () => {
  const spec = {
    reward: tensorSpec('float32'),
    tokens: { prompt: raggedSpec('int32') },
    query: dataSpec<string>('string'),
    version: metaSpec<number>('number'),
  } as const

  it('refine gives a TensorDict the schema of the spec', () => {
    type Refined = TensorDict<Infer<typeof spec>>
    expectTypeOf(refine(spec, td as TensorDict, 'here')).toEqualTypeOf<E.Either<SpecMismatch, Refined>>()
    const typed = (refined: Refined) => [
      get(refined, 'reward'),
      get(refined, 'tokens', 'prompt'),
      get(refined, 'query'),
      get(refined, 'version'),
    ]
    expectTypeOf(typed).returns.toEqualTypeOf<(tf.Tensor | Ragged<'int32'> | Data<string> | Meta<number>)[]>()
    // @ts-expect-error: not in the spec
    expectTypeOf((refined: Refined) => get(refined, 'rewards')).toBeFunction()
  })

  it('dtypes are those there are', () => {
    // @ts-expect-error: no such dtype
    tensorSpec('float64')
  })
})
