/**
 * Laws 69 to 74, and 78: nothing changes, what is untouched is shared, what is refused leaves
 * nothing.
 */
import type { NumberedLaw, TensorDictRecipe } from '@tandem-rl/testing'
import { liveTensors, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { require } from '../../../packages/testing/src/law.js'
import { fromArrays } from '../../../src/data/nested.js'
import { add } from '../../../src/data/tensorDict/arithmetic.js'
import { autoBatch, withBatchShape } from '../../../src/data/tensorDict/batchShape.js'
import { exclude, modify, remove, rename, select, set } from '../../../src/data/tensorDict/edit.js'
import { dropEmptyNodes, flattenKeys, unflattenKeys } from '../../../src/data/tensorDict/flatKeys.js'
import { toNested } from '../../../src/data/tensorDict/inspect.js'
import type { Path } from '../../../src/data/tensorDict/keys.js'
import { meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import {
  leafEntries,
  leafPaths,
  mapLeaves,
  nodePaths,
  skeleton,
  zipLeaves,
} from '../../../src/data/tensorDict/leaves.js'
import { merge, mergeWith } from '../../../src/data/tensorDict/merge.js'
import { find, isTensorDict, TensorDict, TensorDictError } from '../../../src/data/tensorDict/tensorDict.js'
import { identical, lawOf, refused, same, type TensorDictLawOptions } from './checking.js'
import { allPaths, FRESH, pick, withChoices } from './drawing.js'

/** Calls that change keys; some are refused for some TensorDicts. */
const structural = (td: TensorDict, path: Path): readonly (() => unknown)[] => [
  () => set(td, path, meta(1)),
  () => set(td, [...path, 'deeper'], meta(1)),
  () => modify(td, path, () => meta(2)),
  () => remove(td, path),
  () => select(td, path),
  () => exclude(td, path),
  () => rename(td, path, FRESH),
  () => rename(td, path, [FRESH, 'x']),
  () => merge(td, exclude(td, path) as TensorDict),
  () => merge(td, TensorDict({ [path[0]]: {} }, td.batchShape)),
  () => flattenKeys(td, '.'),
  () => unflattenKeys(td, '.'),
  () => dropEmptyNodes(td),
  () => skeleton(td),
  () => autoBatch(td),
  () => withBatchShape(td, []),
]

/** Calls that are refused, after they have made tensors where they make any. */
const wrong = (td: TensorDict, withTensor: TensorDict): readonly (() => unknown)[] => [
  () => mapLeaves(withTensor, () => tf.zeros(withTensor.batchShape.map((n) => n + 1))),
  () => zipLeaves(td, set(td, FRESH, meta(1)), (leaf) => leaf),
  () => add(td, set(td, FRESH, meta(1))),
  () => mergeWith(set(td, FRESH, meta(1)), set(td, [FRESH, 'x'], meta(1)), (leaf) => leaf),
  () => mapLeaves(td, (leaf) => leaf, [-1]),
]

const attempt = (call: () => unknown): void => {
  try {
    call()
  } catch (thrown) {
    if (!(thrown instanceof TensorDictError)) throw thrown
  }
}

/** The observable structure of a TensorDict, without the values of tensors. */
const snapshot = (td: TensorDict): string =>
  JSON.stringify([
    td.batchShape,
    nodePaths(td).map((path) => [path, (find(td, path) as TensorDict).batchShape]),
    leafEntries(td).map(([path, leaf]) => [path, leaf instanceof tf.Tensor ? [leaf.id, leaf.isDisposed] : leaf._tag]),
  ])

const sharesTheRest = (td: TensorDict, path: Path): void => {
  const changed = set(td, path, meta('new'))
  const onTheWay = (node: Path): boolean => node.every((name, i) => path[i] === name)
  for (const node of nodePaths(td)) {
    if (path.every((name, i) => node[i] === name)) continue // replaced
    if (!onTheWay(node)) identical(find(changed, node), find(td, node), 'a node off the path')
    else if (node.length < path.length)
      require(find(changed, node) !== find(td, node), () => 'a node on the path was changed')
  }
  for (const [leaf, value] of leafEntries(td)) {
    if (!path.every((name, i) => leaf[i] === name)) identical(find(changed, leaf), value, 'a leaf off the path')
  }
}

const anArray = fc.array(fc.integer({ min: -9, max: 9 }), { minLength: 1, maxLength: 4 })

const copies = (numbers: readonly number[]): void => {
  const arrays = { float: Float32Array.from(numbers), int: Int32Array.from(numbers) }
  const rows = [Int32Array.from(numbers)]
  const td = TensorDict({ arrays: fromArrays(arrays, [1]), rows: ragged('int32', rows) }, [1])
  const before = JSON.stringify(toNested(td))
  for (const array of [arrays.float, arrays.int, ...rows]) array.fill(77)
  require(JSON.stringify(toNested(td)) === before, () => 'a later write to an array changed the TensorDict')
  const read = toNested(td) as { readonly arrays: { readonly float: number[][] }; readonly rows: number[][] } // made above
  for (const list of [...read.arrays.float, ...read.rows]) if (Array.isArray(list)) list.fill(77)
  require(JSON.stringify(toNested(td)) === before, () => 'a write to what was read changed the TensorDict')
}

const refusesVariables = (td: TensorDict): void => {
  const variable = scope(() => tf.variable(tf.zeros([...td.batchShape])))
  const error = refused(() => set(td, FRESH, variable), 'a variable')
  require(error.message.includes('variable.clone()'), () => error.message)
  refused(() => TensorDict({ [FRESH]: { v: variable } }, td.batchShape), 'a variable in a record')
  const kept = set(td, FRESH, variable.clone())
  variable.assign(tf.ones([...td.batchShape]))
  const numbers = (find(kept, FRESH) as tf.Tensor).dataSync()
  require(Array.from(numbers).every((x) => x === 0), () => 'an assignment changed the TensorDict')
  variable.dispose()
}

/** Laws 69 to 74 and 78, on TensorDicts drawn from `samples`. */
export const sharingLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options: TensorDictLawOptions,
): readonly NumberedLaw[] => {
  const law = (
    number: number,
    title: string,
    check: (td: TensorDict, path: Path, recipe: TensorDictRecipe) => void,
  ): NumberedLaw =>
    lawOf([number, title], withChoices(samples), {
      ...options,
      check: ([recipe, choice]) => {
        const td = recipe.build()
        check(td, pick(allPaths(td), choice) ?? [FRESH], recipe)
      },
    })
  return [
    law(69, 'no operation changes its argument, also when it is refused', (td, path, recipe) => {
      const before = snapshot(td)
      for (const call of structural(td, path)) attempt(call)
      require(snapshot(td) === before, () => 'an argument was changed')
      same(td, recipe.build(), 'the values of an argument')
    }),
    law(70, 'set makes new the nodes on the path alone', (td, path) => {
      if (!leafPaths(td).some((leaf) => leaf.length < path.length && leaf.every((name, i) => path[i] === name)))
        sharesTheRest(td, path)
    }),
    law(71, 'changes of keys make no tensor', (td, path) => {
      const { count, bytes } = liveTensors()
      for (const call of structural(td, path)) attempt(call)
      require(liveTensors().count === count && liveTensors().bytes === bytes, () => 'a tensor was made')
      require(isTensorDict(td), () => 'no TensorDict')
    }),
    lawOf([73, 'later writes to arrays that were given, or that were read, change nothing'], anArray, {
      ...options,
      check: copies,
    }),
    law(74, 'a variable is refused; a clone of it keeps its value', (td) => {
      refusesVariables(td)
    }),
    law(78, 'what is refused leaves no tensor', (td) => {
      const withTensor = set(td, FRESH, tf.zeros([...td.batchShape, 2])) as TensorDict
      const before = liveTensors().count
      // a batch without axes begins every shape
      for (const call of wrong(td, withTensor).slice(td.batchShape.length === 0 ? 1 : 0)) refused(call, 'a wrong call')
      require(liveTensors().count === before, () => 'a refused call left a tensor')
    }),
  ]
}
