/**
 * The ordered entries of a node by name: two parallel arrays for few entries, an OrderedMap for
 * many. The arrays make nodes of the usual size cheap to read, change and map (an OrderedMap of
 * four entries takes over 20 times as long to map); the OrderedMap keeps the cost of a change from
 * growing with the number of entries.
 */
import { OrderedMap } from 'immutable'

/** The largest number of entries in arrays. */
const FEW = 32

interface Few<out V> {
  readonly _tag: 'Few'
  readonly names: readonly string[]
  /** One value for each name. */
  readonly values: readonly V[]
}

interface Many<out V> {
  readonly _tag: 'Many'
  readonly map: OrderedMap<string, V>
}

/** `Few` up to 32 entries, `Many` for more. Names are distinct. */
export type Spine<V> = Few<V> | Many<V>

const few = <V>(names: readonly string[], values: readonly V[]): Few<V> => ({ _tag: 'Few', names, values })

/** Creates a spine from distinct names and their values. The arrays are kept. */
export const spineFrom = <V>(names: readonly string[], values: readonly V[]): Spine<V> =>
  names.length <= FEW
    ? few(names, values)
    : { _tag: 'Many', map: OrderedMap(names.map((name, i): [string, V] => [name, values[i]!])) }

/** The maps of spines that were converted to or from one. */
const maps = new WeakMap<Few<unknown>, OrderedMap<string, unknown>>()

/** Converts a map to a spine. */
export const spineOf = <V>(map: OrderedMap<string, V>): Spine<V> => {
  if (map.size > FEW) return { _tag: 'Many', map }
  const spine = few([...map.keys()], [...map.values()])
  maps.set(spine, map)
  return spine
}

/**
 * Returns the entries as a map, the same one for every call. Cost: one step for each entry at the
 * first call.
 */
export const mapOf = <V>(spine: Spine<V>): OrderedMap<string, V> => {
  if (spine._tag === 'Many') return spine.map
  const known = maps.get(spine) as OrderedMap<string, V> | undefined // made below or in `spineOf`, from this spine
  if (known !== undefined) return known
  const map = OrderedMap(spine.names.map((name, i): [string, V] => [name, spine.values[i]!]))
  maps.set(spine, map)
  return map
}

/** Returns all names, in order. */
export const namesOf = (spine: Spine<unknown>): Iterable<string> =>
  spine._tag === 'Few' ? spine.names : spine.map.keys()

/** Returns true if two spines have the same names, in any order. */
export const sameNames = (a: Spine<unknown>, b: Spine<unknown>): boolean => {
  if (a._tag === 'Few' && b._tag === 'Few') {
    return a.names === b.names || (a.names.length === b.names.length && a.names.every((name) => b.names.includes(name)))
  }
  return (
    a._tag === 'Many' && b._tag === 'Many' && a.map.size === b.map.size && a.map.every((_, name) => b.map.has(name))
  )
}

/** Returns all values, in order. */
export const valuesOf = <V>(spine: Spine<V>): Iterable<V> => (spine._tag === 'Few' ? spine.values : spine.map.values())

/** Returns true if `f` holds for one of the values. */
export const someValue = <V>(spine: Spine<V>, f: (value: V) => boolean): boolean =>
  spine._tag === 'Few' ? spine.values.some(f) : spine.map.some(f)

/** Returns the value under a name. */
export const valueAt = <V>(spine: Spine<V>, name: string): V | undefined => {
  if (spine._tag === 'Many') return spine.map.get(name)
  const at = spine.names.indexOf(name)
  return at < 0 ? undefined : spine.values[at]
}

/**
 * Sets the value under a name: in its place if the name exists, otherwise last. Setting the current
 * value returns the same spine.
 */
export const withValue = <V>(spine: Spine<V>, name: string, value: V): Spine<V> => {
  if (spine._tag === 'Many') {
    const map = spine.map.set(name, value)
    return map === spine.map ? spine : { _tag: 'Many', map }
  }
  const at = spine.names.indexOf(name)
  if (at < 0) return spineFrom([...spine.names, name], [...spine.values, value])
  if (spine.values[at] === value) return spine
  const values = spine.values.slice()
  values[at] = value
  return few(spine.names, values)
}

/** Replaces every value, in order. */
export const mapValues = <V, W>(spine: Spine<V>, f: (value: V, name: string) => W): Spine<W> => {
  if (spine._tag === 'Many') return { _tag: 'Many', map: spine.map.map(f) }
  const { names, values } = spine
  const mapped = new Array<W>(values.length)
  for (let i = 0; i < values.length; i++) mapped[i] = f(values[i]!, names[i]!)
  return few(names, mapped)
}

/**
 * Keeps the names and values for which `f` holds, in order. Returns the same spine if it holds for
 * all.
 */
export const filterEntries = <V>(spine: Spine<V>, f: (value: V, name: string) => boolean): Spine<V> => {
  if (spine._tag === 'Many') {
    const map = spine.map.filter(f)
    return map.size === spine.map.size ? spine : spineOf(map)
  }
  const { names, values } = spine
  const kept = names.flatMap((name, i) => (f(values[i]!, name) ? [i] : []))
  if (kept.length === names.length) return spine
  return few(
    kept.map((i) => names[i]!),
    kept.map((i) => values[i]!),
  )
}

/** Calls `f` with each value and its name, in order. */
export const forEntries = <V>(spine: Spine<V>, f: (value: V, name: string) => void): void => {
  if (spine._tag === 'Many') spine.map.forEach((value, name) => void f(value, name))
  else for (let i = 0; i < spine.names.length; i++) f(spine.values[i]!, spine.names[i]!)
}

/**
 * Merges two spines. A name in both gets the result of `f`, in its place on the left; other entries
 * of the right one come last. Returns the left spine itself if nothing changes.
 */
export const mergeEntries = <V>(
  left: Spine<V>,
  right: Spine<V>,
  f: (left: V, right: V, name: string) => V,
): Spine<V> => {
  if (left._tag === 'Many') {
    const map = left.map.withMutations((merged) => {
      forEntries(right, (value, name) => {
        const present = merged.get(name)
        merged.set(name, present === undefined ? value : f(present, value, name))
      })
    })
    return map === left.map ? left : { _tag: 'Many', map }
  }
  const [names, values] = [[...left.names], [...left.values]]
  let isChanged = false
  forEntries(right, (value, name) => {
    const at = left.names.indexOf(name)
    const next = at < 0 ? value : f(left.values[at]!, value, name)
    if (at < 0) names.push(name)
    isChanged ||= next !== left.values[at]
    values[at < 0 ? names.length - 1 : at] = next
  })
  if (!isChanged) return left
  return names.length === left.names.length ? few(left.names, values) : spineFrom(names, values)
}
