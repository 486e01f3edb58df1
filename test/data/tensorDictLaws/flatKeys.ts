/** Laws 23 to 25: flat keys and back. */
import type { NumberedLaw, TensorDictRecipe } from '@tandem-rl/testing'
import { liveTensors } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { require } from '../../../packages/testing/src/law.js'
import { withBatchShape } from '../../../src/data/tensorDict/batchShape.js'
import { set } from '../../../src/data/tensorDict/edit.js'
import { dropEmptyNodes, flattenKeys, unflattenKeys } from '../../../src/data/tensorDict/flatKeys.js'
import { meta } from '../../../src/data/tensorDict/leaf.js'
import { filterMapLeaves, leafEntries, leafPaths, nodePaths } from '../../../src/data/tensorDict/leaves.js'
import { find, TensorDict, TensorDictError } from '../../../src/data/tensorDict/tensorDict.js'
import { identical, lawOf, refused, same, type TensorDictLawOptions, wellFormed } from './checking.js'
import { FRESH } from './drawing.js'

/** The leaves of nodes that have the root's batch shape: `flattenKeys` takes no others. */
const level = (td: TensorDict): TensorDict => {
  const deep = nodePaths(td).filter((path) => (find(td, path) as TensorDict).batchShape.length > td.batchShape.length)
  const inside = (path: readonly string[]): boolean => deep.some((node) => node.every((name, i) => path[i] === name))
  return filterMapLeaves(td, (leaf, path) => (inside(path) ? { _tag: 'None' } : { _tag: 'Some', value: leaf }))
}

const separators = fc.constantFrom('.', '/', ' > ', 'aa', '\u0000')

const roundTrip = (td: TensorDict, separator: string): void => {
  const flat = flattenKeys(td, separator) as TensorDict
  require(nodePaths(wellFormed(flat)).length === 0, () => 'there is a node')
  const back = wellFormed(unflattenKeys(flat, separator) as TensorDict)
  same(back, dropEmptyNodes(td) as TensorDict, 'flat and back')
  for (const [path, leaf] of leafEntries(td)) identical(find(back, path), leaf, 'a leaf')
}

const refusesWhatIsLost = (td: TensorDict, separator: string): void => {
  const clash = set(set(td, [FRESH, 'x'], meta(1)), `${FRESH}${separator}x`, meta(2))
  const { message } = refused(() => flattenKeys(clash, separator), 'two paths of one flat name')
  require(message.includes('would have the name'), () => message)
  const node = TensorDict({ inner: meta(1) }, [...td.batchShape, 2])
  const deeper = refused(() => flattenKeys(set(td, FRESH, node), separator), 'a node of more batch axes')
  require(deeper.message.includes('would be lost'), () => deeper.message)
  refused(() => flattenKeys(td, ''), 'the empty separator')
  refused(
    () => unflattenKeys(set(set(td, FRESH, meta(1)), `${FRESH}${separator}x`, meta(2)), separator),
    'a leaf in the way',
  )
}

const isFlattenable = (td: TensorDict, separator: string): boolean =>
  leafPaths(td).every((path) => {
    const parts = path.join(separator).split(separator)
    return parts.length === path.length && parts.every((part, i) => part === path[i])
  })

/** `unflattenKeys`, or undefined where names collide. */
const nested = (flat: TensorDict, separator: string): TensorDict | undefined => {
  try {
    return unflattenKeys(flat, separator) as TensorDict
  } catch (thrown) {
    if (thrown instanceof TensorDictError) return undefined
    throw thrown
  }
}

/** Laws 23 to 25, on TensorDicts drawn from `samples`. */
export const flatKeyLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options: TensorDictLawOptions,
): readonly NumberedLaw[] => {
  const law = (number: number, title: string, check: (td: TensorDict, separator: string) => void): NumberedLaw =>
    lawOf([number, title], fc.tuple(samples, separators), {
      ...options,
      check: ([recipe, separator]) => {
        check(level(recipe.build()), separator)
      },
    })
  return [
    law(23, 'flattenKeys and back is the TensorDict without empty nodes', (td, separator) => {
      if (isFlattenable(td, separator)) roundTrip(td, separator)
      else refused(() => flattenKeys(td, separator), 'a name that could not be taken apart')
    }),
    law(24, 'flattenKeys refuses what could not be taken apart again', refusesWhatIsLost),
    law(25, 'unflattenKeys and back is the TensorDict; neither makes a tensor', (td, separator) => {
      const flat = filterMapLeaves(td, (leaf, path) =>
        path.length > 1 ? { _tag: 'None' } : { _tag: 'Some', value: leaf },
      )
      const plain = dropEmptyNodes(withBatchShape(flat, td.batchShape)) as TensorDict
      const before = liveTensors().count
      const deep = nested(plain, separator)
      if (deep !== undefined) same(flattenKeys(wellFormed(deep), separator) as TensorDict, plain, 'nested and back')
      require(liveTensors().count === before, () => 'a tensor was made')
    }),
  ]
}
