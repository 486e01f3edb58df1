/** Laws 6 to 14: set, get, remove, modify under paths. */
import type { NumberedLaw, TensorDictRecipe } from '@tandem-rl/testing'
import fc from 'fast-check'
import { require } from '../../../packages/testing/src/law.js'
import { modify, remove, set } from '../../../src/data/tensorDict/edit.js'
import { type Path, startsWith } from '../../../src/data/tensorDict/keys.js'
import { meta } from '../../../src/data/tensorDict/leaf.js'
import { leafPaths, nodePaths } from '../../../src/data/tensorDict/leaves.js'
import { type Entry, find, has, isTensorDict, type TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { identical, lawOf, refused, same, type TensorDictLawOptions, wellFormed } from './checking.js'
import { allPaths, FRESH, pick } from './drawing.js'

interface Drawn {
  readonly td: TensorDict
  /** Of a leaf or node of `td`, or new in one of its nodes. */
  readonly path: Path
  readonly other: Path
  /** A value that fits anywhere. */
  readonly values: readonly [Entry, Entry]
}

const put = (td: TensorDict, path: Path, entry: Entry): TensorDict => wellFormed(set(td, path, entry))

const drawn = ({
  recipe,
  first,
  second,
}: {
  readonly recipe: TensorDictRecipe
  readonly first: number
  readonly second: number
}): Drawn => {
  const td = recipe.build()
  const fresh = [[], ...nodePaths(td)].map((node): Path => [...node, FRESH] as unknown as Path) // it has a name
  const paths = [...allPaths(td), ...fresh]
  return { td, path: pick(paths, first)!, other: pick(paths, second)!, values: [meta(first), meta([second])] } // there is a fresh one
}

const parentIsThere = (td: TensorDict, path: Path): boolean => isTensorDict(find(td, path.slice(0, -1)))

/** Laws 6 to 14, on TensorDicts drawn from `samples`. */
export const lensLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options: TensorDictLawOptions,
): readonly NumberedLaw[] => {
  const places = fc.record({ recipe: samples, first: fc.nat(), second: fc.nat() })
  const law = (number: number, title: string, check: (drawn: Drawn) => void): NumberedLaw =>
    lawOf([number, title], places, {
      ...options,
      check: (made) => {
        check(drawn(made))
      },
    })
  return [
    law(6, 'setting what is there gives the same object', ({ td }) => {
      for (const path of allPaths(td)) identical(set(td, path, find(td, path)!), td, path.join(' > ')) // a path of td
    }),
    law(7, 'what was set is there, the very same', ({ td, path, values: [value] }) => {
      identical(find(put(td, path, value), path), value, 'what was set')
    }),
    law(8, 'the last of two sets counts', ({ td, path, values: [first, last] }) => {
      same(put(put(td, path, first), path, last), put(td, path, last), 'set twice')
    }),
    law(9, 'sets under paths that do not cover each other commute', ({ td, path, other, values: [a, b] }) => {
      if (startsWith(path, other) || startsWith(other, path)) return
      same(put(put(td, path, a), other, b), put(put(td, other, b), path, a), 'set in the other order')
    }),
    law(10, 'inside of a node that was set is what is inside of it', ({ td }) => {
      const placed = put(td, [FRESH, 'inner'], td)
      for (const path of allPaths(td))
        identical(find(placed, [FRESH, 'inner', ...path]), find(td, path), 'an entry of the node')
    }),
    law(
      11,
      'setting through a leaf is refused, missing nodes are made with the batch shape above',
      ({ td, values: [value] }) => {
        for (const path of leafPaths(td)) {
          const error = refused(() => set(td, [...path, 'inside'], value), 'set through a leaf')
          require(error.message.includes('is a leaf'), () => error.message)
        }
        const node = find(put(td, [FRESH, 'a', 'b'], value), [FRESH, 'a'])
        require(isTensorDict(node) && node.batchShape.join() === td.batchShape.join(), () =>
          'a node of another batch shape')
      },
    ),
    law(12, 'has says whether find finds; nothing is inside of a leaf', ({ td, path }) => {
      require(has(td, ...path) === (find(td, path) !== undefined), () => 'has and find disagree')
      for (const leaf of leafPaths(td))
        require(!has(td, ...leaf, 'x') && has(td, ...leaf), () => 'something inside of a leaf')
    }),
    law(
      13,
      'removing what was set gives the TensorDict back; removing nothing gives the same object',
      ({ td, path, values: [value] }) => {
        if (find(td, path) === undefined && parentIsThere(td, path))
          same(wellFormed(remove(put(td, path, value), path) as TensorDict), td, 'set and removed')
        identical(remove(td, [FRESH, 'x']), td, 'removed what is not there')
        if (find(td, path) !== undefined)
          require(!has(wellFormed(remove(td, path) as TensorDict), ...path), () => 'it is still there')
      },
    ),
    law(
      14,
      'modify by the identity gives the same object; two modifications are one',
      ({ td, path, values: [value] }) => {
        const present = find(td, path)
        if (present === undefined) {
          refused(() => modify(td, path, (entry) => entry), 'modify what is not there')
          return
        }
        identical(
          modify(td, path, (entry) => entry),
          td,
          'modified by the identity',
        )
        const [f, g] = [
          (entry: Entry): Entry => meta(entry),
          (entry: Entry): Entry => (isTensorDict(entry) ? entry : value),
        ]
        same(
          wellFormed(modify(modify(td, path, f), path, g)),
          modify(td, path, (entry) => g(f(entry))),
          'modified twice',
        )
      },
    ),
  ]
}
