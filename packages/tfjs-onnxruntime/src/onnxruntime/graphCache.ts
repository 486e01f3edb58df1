/** Compiled graphs by key, the least recently used of which are released. */

/** A cache of at most `size` compiled graphs. */
export interface GraphCache<G> {
  readonly size: () => number
  /** Returns the graph of a key, or compiles and keeps it. */
  readonly of: (key: string, compile: () => G) => G
  /** Number of graphs that were found. */
  readonly hits: () => number
  readonly release: () => void
}

/**
 * Makes an empty cache.
 *
 * Effects  releases the least recently used graph when there are more than `size`.
 */
export const graphCache = <G extends { readonly release: () => void }>(size: number): GraphCache<G> => {
  const cache = new Map<string, G>()
  let hits = 0
  return {
    size: () => cache.size,
    of: (key, compile) => {
      const hit = cache.get(key)
      if (hit !== undefined) {
        hits++
        cache.delete(key) // moves the entry to the end of the insertion order
        cache.set(key, hit)
        return hit
      }
      const compiled = compile()
      cache.set(key, compiled)
      if (cache.size > size) {
        const [oldestKey, oldest] = cache.entries().next().value!
        cache.delete(oldestKey)
        oldest.release()
      }
      return compiled
    },
    hits: () => hits,
    release: () => {
      for (const compiled of cache.values()) compiled.release()
      cache.clear()
    },
  }
}
