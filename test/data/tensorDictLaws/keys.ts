/** Laws 15 to 22: taking keys apart and putting them together. */
import type { NumberedLaw, TensorDictRecipe } from '@tandem-rl/testing'
import fc from 'fast-check'
import { require } from '../../../packages/testing/src/law.js'
import { exclude, partitionKeys, rename, select } from '../../../src/data/tensorDict/edit.js'
import { type Path, startsWith } from '../../../src/data/tensorDict/keys.js'
import { meta } from '../../../src/data/tensorDict/leaf.js'
import { leafEntries, leafPaths, mapLeaves, nodePaths } from '../../../src/data/tensorDict/leaves.js'
import { merge, mergeWith } from '../../../src/data/tensorDict/merge.js'
import { find, isTensorDict, TensorDict, TensorDictError } from '../../../src/data/tensorDict/tensorDict.js'
import { identical, lawOf, refused, same, type TensorDictLawOptions, wellFormed } from './checking.js'
import { allPaths, FRESH, pick, subset, withChoices, withOther } from './drawing.js'

const keep = (td: TensorDict, paths: readonly Path[]): TensorDict => wellFormed(select(td, ...paths) as TensorDict)
const drop = (td: TensorDict, paths: readonly Path[]): TensorDict => wellFormed(exclude(td, ...paths) as TensorDict)
const join = (left: TensorDict, right: TensorDict): TensorDict => wellFormed(merge(left, right) as TensorDict)

const namesOf = (td: TensorDict): readonly string[] => leafPaths(td).map((path) => JSON.stringify(path))

/** The result of a merge, or the paths where it is refused. */
const attempt = (f: () => TensorDict): TensorDict | 'refused' => {
  try {
    return f()
  } catch (thrown) {
    if (thrown instanceof TensorDictError) return 'refused'
    throw thrown
  }
}

const selects = (td: TensorDict, bits: number): void => {
  const paths = allPaths(td)
  identical(keep(td, paths), td, 'all keys selected')
  const chosen = subset(paths, bits)
  const once = keep(td, chosen)
  identical(keep(once, chosen), once, 'selected twice')
  same(keep(td, [...chosen].reverse().concat(chosen)), once, 'selected in another order')
  const order = namesOf(td).filter((name) => namesOf(once).includes(name))
  require(order.join() === namesOf(once).join(), () => 'the order of keys has changed')
  const error = refused(() => select(td, [FRESH], [FRESH, 'x'], ...chosen), 'select what is not there')
  require(error.details.problems?.length === 2, () => 'not both missing keys are named')
}

const partitions = (td: TensorDict, bits: number): void => {
  const chosen = subset(allPaths(td), bits)
  const [inside, outside] = [keep(td, chosen), drop(td, chosen)]
  same(join(inside, outside), td, 'what is selected and what is excluded')
  const names = [...namesOf(inside), ...namesOf(outside)].sort()
  require(names.join() === [...namesOf(td)].sort().join(), () => 'leaves are lost, or on both sides')
}

const partitionIsWhole = (td: TensorDict, bits: number): void => {
  const leaves = leafPaths(td)
  const lists = [subset(leaves, bits), leaves.filter((path) => !subset(leaves, bits).includes(path)).slice(1)]
  const parts = (partitionKeys(td, ...lists) as readonly TensorDict[]).map((part) => wellFormed(part))
  require(parts.length === 3, () => 'not one part for each list, and the rest')
  same(parts.reduce(join), td, 'all parts merged')
  const [first] = leaves
  if (first === undefined) return
  const covering: Path = [first[0]]
  const error = refused(() => partitionKeys(td, [first], [covering]), 'lists that overlap')
  require(error.message.includes('overlaps'), () => error.message)
}

const renames = (td: TensorDict, choice: number, other: number): void => {
  const from = pick(allPaths(td), choice)
  if (from === undefined) return
  const sibling = [...from.slice(0, -1), FRESH] as unknown as Path // it has a name
  const there = wellFormed(rename(td, from, sibling) as TensorDict)
  const back = wellFormed(rename(there, sibling, from) as TensorDict)
  same(back, td, 'renamed there and back')
  require(namesOf(back).join() === namesOf(td).join(), () => 'the order of keys has changed')
  identical(find(there, sibling), find(td, from), 'the renamed entry')
  identical(rename(td, from, from), td, 'renamed to its own key')
  refused(() => rename(td, from, [...from, 'k']), 'renamed into itself')
  const taken = pick(allPaths(td), other)!
  if (!startsWith(taken, from)) refused(() => rename(td, from, taken), 'renamed to what is taken')
  refused(() => rename(td, [FRESH], 'x'), 'renamed what is not there')
}

const merges = (a: TensorDict, b: TensorDict, c: TensorDict): void => {
  const left = attempt(() => join(join(a, b), c))
  const right = attempt(() => join(a, join(b, c)))
  if (left === 'refused' || right === 'refused') identical(left, right, 'one grouping is refused')
  else {
    same(left, right, 'the other grouping')
    for (const [path, leaf] of leafEntries(c)) identical(find(left, path), leaf, 'a leaf of the right')
  }
  identical(merge(a, TensorDict({}, a.batchShape)), a, 'merged with nothing')
  same(join(TensorDict({}, a.batchShape), a), a, 'nothing merged with it')
  same(join(a, a), a, 'merged with itself')
}

const conflictsAreResolved = (td: TensorDict, bits: number, other: TensorDict): void => {
  const part = mapLeaves(keep(td, subset(leafPaths(td), bits)), () => meta('right'))
  const calls: string[] = []
  const merged = wellFormed(
    mergeWith(td, part, (leaf, _, path) => {
      calls.push(JSON.stringify(path))
      return leaf
    }),
  )
  require(calls.join() === namesOf(part).join(), () => 'not called once for each path that both have')
  same(merged, td, 'the left leaves were kept')
  const at = leafPaths(td)[0]
  if (at !== undefined) {
    const node = TensorDict({}, td.batchShape)
    const against = [...at]
      .reverse()
      .reduce<TensorDict>((inner, name) => TensorDict({ [name]: inner }, td.batchShape), node)
    const nested = at
      .slice(0, -1)
      .some((_, i) => (find(td, at.slice(0, i + 1)) as TensorDict).batchShape.length > td.batchShape.length)
    const error = refused(() => mergeWith(td, against, (leaf) => leaf), 'a leaf against a node')
    require(nested || error.message.includes('a leaf on the left and a node on the right'), () => error.message)
  }
  const before = [namesOf(td), namesOf(other)].join()
  attempt(() => join(td, other))
  require([namesOf(td), namesOf(other)].join() === before, () => 'an argument was changed')
}

/** Laws 15 to 22, on TensorDicts drawn from `samples`. */
export const keyLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options: TensorDictLawOptions,
): readonly NumberedLaw[] => {
  const law = (number: number, title: string, check: (td: TensorDict, a: number, b: number) => void): NumberedLaw =>
    lawOf([number, title], withChoices(samples), {
      ...options,
      check: ([recipe, a, b]) => {
        check(recipe.build(), a, b)
      },
    })
  const three = withOther(samples).chain(([a, b]) => fc.tuple(fc.constant(a), fc.constant(b), fc.nat(), fc.nat()))
  return [
    law(15, 'select: all keys give the same object, twice is once, the order of keys does not count', selects),
    law(16, 'select and exclude take a TensorDict apart', partitions),
    law(17, 'exclude: nothing gives the same object, twice is the union', (td, a, b) => {
      identical(exclude(td), td, 'nothing excluded')
      identical(exclude(td, FRESH), td, 'what is not there excluded')
      const [first, second] = [subset(allPaths(td), a), subset(allPaths(td), b)]
      same(drop(drop(td, first), second), drop(td, [...first, ...second]), 'excluded twice')
      require(nodePaths(drop(td, leafPaths(td))).length === nodePaths(td).length, () => 'an emptied node is gone')
    }),
    law(18, 'partitionKeys: the parts merged are the whole, overlaps are refused', partitionIsWhole),
    law(19, 'rename there and back; what is taken and its own inside are refused', renames),
    lawOf([20, 'merge is associative, has a unit, is idempotent and prefers the right'], three, {
      ...options,
      check: ([first, second, bits, more]) => {
        const [td, other] = [first.build(), second.build()]
        const relabeled = mapLeaves(td, () => meta('other'))
        merges(td, other, relabeled)
        merges(
          drop(td, subset(leafPaths(td), bits)),
          keep(relabeled, subset(leafPaths(td), more)),
          keep(td, subset(leafPaths(td), bits)),
        )
      },
    }),
    lawOf([21, 'mergeWith is asked once for each path that both have; a leaf against a node is refused'], three, {
      ...options,
      check: ([first, second, bits]) => {
        conflictsAreResolved(first.build(), bits, second.build())
      },
    }),
    lawOf([22, 'a merge that is refused leaves both sides as they were'], three, {
      ...options,
      check: ([first, second]) => {
        const [a, b] = [first.build(), second.build()]
        attempt(() => join(a, b))
        same(a, first.build(), 'the left side')
        same(b, second.build(), 'the right side')
        require([...a.entries.values(), ...b.entries.values()].every(
          (entry) => isTensorDict(entry) || !('isDisposed' in entry && entry.isDisposed),
        ), () => 'a tensor was freed')
      },
    }),
  ]
}
