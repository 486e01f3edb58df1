/** fast-check arbitraries for the public values of this package. */
import * as tf from '@tensorflow/tfjs'
import fc from 'fast-check'
import { type Key, keyFromSeed } from '../core/key.js'
import { History, type Message, message } from '../data/history.js'
import type { Task } from '../data/task.js'
import { data, meta, type Ragged, type RaggedType, ragged } from '../data/tensorDict/leaf.js'
import { type Entries, TensorDict } from '../data/tensorDict/tensorDict.js'

/** Keys of random streams. */
export const anyKey: fc.Arbitrary<Key> = fc.nat().map(keyFromSeed)

/** Names that trip up careless code: prototypes, numbers, dots, the empty string, other alphabets. */
export const anyName: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(
    'a',
    'b',
    'next',
    'a.b',
    '.',
    '',
    '10',
    '9',
    '__proto__',
    'constructor',
    'toString',
    'size',
    'get',
    '名前',
  ),
  fc.string({ maxLength: 8 }),
)

const numberOf = (type: RaggedType): fc.Arbitrary<number> => {
  switch (type) {
    case 'int32':
      return fc.integer({ min: -1000, max: 1000 })
    case 'float32':
      return fc.float({ noNaN: false })
    case 'bool':
      return fc.constantFrom(0, 1)
  }
}

/** Ragged rows of one type. */
export const anyRagged = <T extends RaggedType>(type: T, rows: number, maxLength = 5): fc.Arbitrary<Ragged<T>> =>
  fc
    .array(fc.array(numberOf(type), { maxLength }), { minLength: rows, maxLength: rows })
    .map((lists) => ragged(type, lists))

/** Messages of text. */
export const anyMessage: fc.Arbitrary<Message> = fc
  .tuple(fc.constantFrom('system', 'user', 'assistant', 'tool'), fc.string({ maxLength: 20 }), fc.boolean())
  .map(([role, text, isComplete]) => message(role, text, { isComplete }))

/** Conversations. */
export const anyHistory: fc.Arbitrary<History> = fc.array(anyMessage, { maxLength: 5 }).map(History)

/** Tasks whose answer is in GSM8K's format. */
export const anyTask: fc.Arbitrary<Task> = fc
  .tuple(fc.nat(), fc.string({ minLength: 1, maxLength: 30 }), fc.integer({ min: -5000, max: 5000 }))
  .map(([id, query, answer]) => ({ id: `task-${id}`, query, answer: `It is ${answer}.\n#### ${answer}` }))

/**
 * A TensorDict as a recipe: `build` makes it, with tensors of the enclosing scope. Drawing makes no tensor, so that a failing case can be
 * shrunk and built again.
 */
export interface TensorDictRecipe {
  readonly batchShape: readonly number[]
  readonly build: () => TensorDict
}

type LeafRecipe = () => Entries[string]

const leafRecipe = (batchShape: readonly number[]): fc.Arbitrary<LeafRecipe> => {
  const rows = batchShape.reduce((n, m) => n * m, 1)
  const features = fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 2 })
  const tensor = (dtype: 'float32' | 'int32' | 'bool'): fc.Arbitrary<LeafRecipe> =>
    features.chain((feature) => {
      const shape = [...batchShape, ...feature]
      const size = shape.reduce((n, m) => n * m, 1)
      return fc
        .array(numberOf(dtype), { minLength: size, maxLength: size })
        .map((values) => () => tf.tensor(values, shape, dtype))
    })
  const words = fc.array(fc.string({ maxLength: 5 }), { minLength: rows, maxLength: rows })
  return fc.oneof(
    tensor('float32'),
    tensor('int32'),
    tensor('bool'),
    fc.oneof(anyRagged('int32', rows), anyRagged('float32', rows), anyRagged('bool', rows)).map((leaf) => () => leaf),
    words.map((items) => () => data(items)),
    fc.integer().map((value) => () => meta(value)),
  )
}

const entriesRecipe = (batchShape: readonly number[], depth: number): fc.Arbitrary<() => Entries> => {
  const child: fc.Arbitrary<LeafRecipe> =
    depth === 0
      ? leafRecipe(batchShape)
      : fc.oneof(
          { weight: 3, arbitrary: leafRecipe(batchShape) },
          { weight: 1, arbitrary: entriesRecipe(batchShape, depth - 1) },
        )
  return fc
    .uniqueArray(fc.tuple(anyName, child), { maxLength: 4, selector: ([name]) => name })
    .map((pairs) => () => Object.fromEntries(pairs.map(([name, make]) => [name, make()])))
}

/** TensorDicts of all leaf kinds, up to three levels deep, with the batch shapes of `shapes`. */
export const anyTensorDict = (
  shapes: fc.Arbitrary<readonly number[]> = anyBatchShape,
): fc.Arbitrary<TensorDictRecipe> =>
  shapes.chain((batchShape) =>
    entriesRecipe(batchShape, 2).map((make) => ({ batchShape, build: () => TensorDict(make(), batchShape) })),
  )

/** Batch shapes of up to three axes; sizes 0 and 1 occur. */
export const anyBatchShape: fc.Arbitrary<readonly number[]> = fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 3 })
