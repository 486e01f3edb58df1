/** fast-check arbitraries of TensorDicts that satisfy a spec. */
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import {
  batchSize,
  data,
  type Entries,
  type Infer,
  type LeafSpec,
  leafOrNode,
  meta,
  type NodeSpec,
  type RaggedType,
  type Spec,
  TensorDict,
} from 'tandem-rl/tensordict'
import { anyBatchShape, anyHistory, anyMessage, anyRagged, type TensorDictRecipe } from './arbitraries.js'
import { shown, textOfMade } from './shown.js'

/** A TensorDict as a recipe, with its schema. */
export interface RecipeOf<S> extends TensorDictRecipe {
  readonly build: () => TensorDict<S>
}

/** The arbitraries of data and meta, by the type name in their spec. */
export type ValueArbitraries = Readonly<Record<string, fc.Arbitrary<unknown>>>

const KNOWN: ValueArbitraries = {
  string: fc.string({ maxLength: 8 }),
  number: fc.oneof(fc.integer(), fc.double()),
  boolean: fc.boolean(),
  'number | null': fc.option(fc.nat(9)),
  History: anyHistory,
  Message: anyMessage,
}

/** Returns the type names without an arbitrary, with their paths. */
const unknownValues = (spec: Spec, values: ValueArbitraries, path: readonly string[] = []): readonly string[] =>
  Object.entries(spec).flatMap(([key, entry]) => {
    const [part, place] = [leafOrNode(entry), [...path, key]]
    if (part._tag === 'NodeSpec') return unknownValues(part.entries, values, place)
    const isNamed = part._tag === 'DataSpec' || part._tag === 'MetaSpec'
    return isNamed && !Object.hasOwn(values, part.of)
      ? [`${place.map((name) => JSON.stringify(name)).join(' > ')}: '${part.of}'`]
      : []
  })

const numbersOf = (type: RaggedType, count: number): fc.Arbitrary<readonly number[]> => {
  const numbers = {
    int32: fc.integer({ min: -1000, max: 1000 }),
    float32: fc.float(),
    bool: fc.constantFrom(0, 1),
  }
  return fc.array(numbers[type], { minLength: count, maxLength: count })
}

type EntryRecipe = () => Entries[string]

const leafOf = (spec: LeafSpec, batchShape: readonly number[], values: ValueArbitraries): fc.Arbitrary<EntryRecipe> => {
  const rows = batchSize(batchShape)
  switch (spec._tag) {
    case 'TensorSpec': {
      const shape = [...batchShape, ...spec.shape]
      return numbersOf(spec.dtype, batchSize(shape)).map((numbers) => () => tf.tensor([...numbers], shape, spec.dtype))
    }
    case 'RaggedSpec':
      return anyRagged(spec.type, rows).map((leaf) => () => leaf)
    case 'DataSpec':
      return fc
        .array(values[spec.of]!, { minLength: rows, maxLength: rows }) // its name is known, checked by `anyOfSpec`
        .map((items) => () => data(items))
    case 'MetaSpec':
      return values[spec.of]!.map((value) => () => meta(value)) // its name is known, checked by `anyOfSpec`
  }
}

/** Draws a node with its own batch shape. */
const nodeRecipe = (
  { axes, entries }: NodeSpec,
  outer: readonly number[],
  values: ValueArbitraries,
): fc.Arbitrary<EntryRecipe> => {
  const batchShape = [...outer, ...axes]
  return entriesOf(entries, batchShape, values).map((make) => () => TensorDict(make(), batchShape))
}

const entriesOf = (
  spec: Spec,
  batchShape: readonly number[],
  values: ValueArbitraries,
): fc.Arbitrary<() => Entries> => {
  const parts = Object.entries(spec).map(([key, entry]) => {
    const part = leafOrNode(entry)
    const recipe: fc.Arbitrary<EntryRecipe> =
      part._tag === 'NodeSpec' ? nodeRecipe(part, batchShape, values) : leafOf(part, batchShape, values)
    return recipe.map((make) => [key, make] as const)
  })
  return fc.tuple(...parts).map((made) => () => Object.fromEntries(made.map(([key, make]) => [key, make()])))
}

/**
 * Draws TensorDicts that satisfy a spec, without other entries. Counterexamples show their values.
 * Drawing makes no tensors; `build` makes them in the enclosing scope.
 *
 * Values of data and meta are drawn by the type name in their spec. string, number, boolean,
 * `number | null`, History and Message are built in; `values` adds others, and takes precedence.
 *
 * Shapes   batch shapes of `batchShapes`.
 * Errors   throws RangeError that lists all type names without an arbitrary, with their paths.
 *
 * @example
 * fc.sample(anyOfSpec({ query: dataSpec('string') }, fc.constant([2])), 1)[0].build().batchShape // [2]
 */
export const anyOfSpec = <P extends Spec>(
  spec: P,
  batchShapes: fc.Arbitrary<readonly number[]> = anyBatchShape,
  values: ValueArbitraries = {},
): fc.Arbitrary<RecipeOf<Infer<P>>> => {
  const known = { ...KNOWN, ...values }
  const unknown = unknownValues(spec, known)
  if (unknown.length > 0) throw new RangeError(`anyOfSpec: no values are known for ${unknown.join('; ')}`)
  return batchShapes.chain((batchShape) =>
    entriesOf(spec, batchShape, known).map((make) => {
      const build = () => TensorDict(make(), batchShape) as TensorDict as TensorDict<Infer<P>> // made entry by entry from P
      return shown({ batchShape, build }, () => textOfMade(build))
    }),
  )
}
