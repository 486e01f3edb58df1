/** fast-check arbitraries for the public values of this package. */
import { type Key, keyFromSeed } from '@tandem-rl/base'
import { History, type Message, message } from '@tandem-rl/text'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import type { Task } from 'tandem-rl'
import {
  batchSize,
  data,
  type Leaf,
  meta,
  type Ragged,
  type RaggedType,
  ragged,
  set,
  TensorDict,
} from 'tandem-rl/tensordict'

/** Draws keys of random streams. */
export const anyKey: fc.Arbitrary<Key> = fc.nat().map(keyFromSeed)

/**
 * Draws names that break careless code: prototypes, numbers, dots, the empty string, other
 * alphabets.
 */
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
    '🙂',
    'long '.repeat(40),
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

/** Draws ragged rows of one type. */
export const anyRagged = <T extends RaggedType>(type: T, rows: number, maxLength = 5): fc.Arbitrary<Ragged<T>> =>
  fc
    .array(fc.array(numberOf(type), { maxLength }), { minLength: rows, maxLength: rows })
    .map((lists) => ragged(type, lists))

/** Draws text messages. */
export const anyMessage: fc.Arbitrary<Message> = fc
  .tuple(fc.constantFrom('system', 'user', 'assistant', 'tool'), fc.string({ maxLength: 20 }), fc.boolean())
  .map(([role, text, isComplete]) => message(role, text, { isComplete }))

/** Draws conversations. */
export const anyHistory: fc.Arbitrary<History> = fc.array(anyMessage, { maxLength: 5 }).map(History)

/** Draws tasks with answers in GSM8K's format. */
export const anyTask: fc.Arbitrary<Task> = fc
  .tuple(fc.nat(), fc.string({ minLength: 1, maxLength: 30 }), fc.integer({ min: -5000, max: 5000 }))
  .map(([id, query, answer]) => ({ id: `task-${id}`, query, answer: `It is ${answer}.\n#### ${answer}` }))

/**
 * A recipe of a TensorDict. `build` makes it, with tensors of the enclosing scope. Drawing makes no
 * tensors, so a failing case can be shrunk and built again.
 */
export interface TensorDictRecipe {
  readonly batchShape: readonly number[]
  readonly build: () => TensorDict
}

/**
 * The numbers in tensors and ragged rows: any of their type, or small integers, which are exact in
 * float32.
 */
export interface TensorDictOptions {
  readonly numbers?: 'any' | 'whole'
}

/** Draws batch shapes of up to three axes, including sizes 0 and 1. */
export const anyBatchShape: fc.Arbitrary<readonly number[]> = fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 3 })

type LeafPlan =
  | { readonly _tag: 'Tensor'; readonly dtype: RaggedType; readonly features: readonly number[] }
  | { readonly _tag: 'Ragged'; readonly type: RaggedType }
  | { readonly _tag: 'Data' }
  | { readonly _tag: 'Meta'; readonly value: unknown }

/**
 * The common structure of TensorDicts. `inner` are the batch axes of a node in addition to its
 * parent's.
 */
export interface NodeRecipe {
  readonly _tag: 'Node'
  readonly inner: readonly number[]
  readonly children: readonly (readonly [string, LeafPlan | NodeRecipe])[]
}

const anyType = fc.constantFrom<RaggedType>('float32', 'int32', 'bool')

const anyValue: fc.Arbitrary<unknown> = fc.oneof(
  fc.string({ maxLength: 5 }),
  fc.integer(),
  fc.constantFrom(null, true, Number.NaN),
  fc.record({ id: fc.nat(9), tags: fc.array(fc.string({ maxLength: 2 }), { maxLength: 2 }) }),
)

const leafPlan: fc.Arbitrary<LeafPlan> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      _tag: fc.constant('Tensor' as const),
      dtype: anyType,
      features: fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 2 }),
    }),
  },
  { weight: 1, arbitrary: anyType.map((type) => ({ _tag: 'Ragged' as const, type })) },
  { weight: 1, arbitrary: fc.constant({ _tag: 'Data' as const }) },
  { weight: 1, arbitrary: anyValue.map((value) => ({ _tag: 'Meta' as const, value })) },
)

const childrenPlan = (depth: number): fc.Arbitrary<NodeRecipe['children']> =>
  fc.uniqueArray(
    fc.tuple(
      anyName,
      depth === 0
        ? leafPlan
        : fc.oneof({ weight: 3, arbitrary: leafPlan }, { weight: 1, arbitrary: nodePlan(depth - 1) }),
    ),
    { maxLength: 4, selector: ([name]) => name },
  )

const nodePlan = (depth: number): fc.Arbitrary<NodeRecipe> =>
  fc.record({
    _tag: fc.constant('Node' as const),
    inner: fc.oneof(
      { weight: 2, arbitrary: fc.constant([]) },
      { weight: 1, arbitrary: fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 1 }) },
    ),
    children: childrenPlan(depth),
  })

/** Draws structures up to three levels deep. The root adds no batch axes. */
export const rootPlan: fc.Arbitrary<NodeRecipe> = childrenPlan(2).map((children) => ({
  _tag: 'Node',
  inner: [],
  children,
}))

const drawnNumber = (type: RaggedType, { numbers = 'any' }: TensorDictOptions): fc.Arbitrary<number> =>
  numbers === 'any' || type === 'bool' ? numberOf(type) : fc.integer({ min: -4, max: 4 })

type LeafRecipe = () => Leaf

const leafRecipe = (
  plan: LeafPlan,
  batchShape: readonly number[],
  options: TensorDictOptions,
): fc.Arbitrary<LeafRecipe> => {
  const rows = batchSize(batchShape)
  switch (plan._tag) {
    case 'Tensor': {
      const shape = [...batchShape, ...plan.features]
      const size = batchSize(shape)
      return fc
        .array(drawnNumber(plan.dtype, options), { minLength: size, maxLength: size })
        .map((values) => () => tf.tensor(values, shape, plan.dtype))
    }
    case 'Ragged': {
      const row = fc.array(drawnNumber(plan.type, options), { maxLength: 5 })
      return fc.array(row, { minLength: rows, maxLength: rows }).map((lists) => () => ragged(plan.type, lists))
    }
    case 'Data':
      return fc.array(anyValue, { minLength: rows, maxLength: rows }).map((items) => () => data(items))
    case 'Meta':
      return fc.constant(() => meta(plan.value))
  }
}

type Child = readonly [name: string, recipe: LeafRecipe | TensorDictRecipe]

const nodeRecipe = (batchShape: readonly number[], children: readonly Child[]): TensorDictRecipe => ({
  batchShape,
  build: () =>
    children.reduce<TensorDict>(
      (td, [name, child]) => set(td, name, typeof child === 'function' ? child() : child.build()),
      TensorDict({}, batchShape),
    ),
})

/** Draws values for a structure. */
export const recipeOf = (
  plan: NodeRecipe,
  batchShape: readonly number[],
  options: TensorDictOptions,
): fc.Arbitrary<TensorDictRecipe> =>
  fc
    .tuple(
      ...plan.children.map(([name, child]): fc.Arbitrary<Child> => {
        const recipe: fc.Arbitrary<LeafRecipe | TensorDictRecipe> =
          child._tag === 'Node'
            ? recipeOf(child, [...batchShape, ...child.inner], options)
            : leafRecipe(child, batchShape, options)
        return recipe.map((made): Child => [name, made])
      }),
    )
    .map((children) => nodeRecipe(batchShape, children))

/**
 * Draws TensorDicts with all kinds of leaves, up to three levels deep, with batch shapes of
 * `shapes`. Names are adversarial, nodes may be empty, sizes may be 0, and nodes may have more
 * batch axes than their parents.
 */
export const anyTensorDict = (
  shapes: fc.Arbitrary<readonly number[]> = anyBatchShape,
  options: TensorDictOptions = {},
): fc.Arbitrary<TensorDictRecipe> =>
  fc.tuple(shapes, rootPlan).chain(([batchShape, plan]) => recipeOf(plan, batchShape, options))
