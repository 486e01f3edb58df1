/** Which of several engines a request goes to: where its prefix is cached, but not where everybody is. */

/** What is known of an engine. */
export interface Candidate {
  readonly name: string
  /** Requests that are with it now. */
  readonly load: number
}

/** What of a request decides. */
export interface Routed {
  readonly prompt: Int32Array
  readonly conversation?: string
}

/** Where requests went, for those that come after them. */
export interface MemberRoutes {
  /** The name of the engine for a request, which is remembered; undefined if there is no candidate. */
  readonly choose: (request: Routed, candidates: readonly Candidate[]) => string | undefined
  /** Entries that are remembered. */
  readonly size: () => number
}

/** Tokens of a prefix are compared in blocks of so many, as engines cache them. */
const BLOCK = 16

/** An engine with more than so many times the least load, and this many more requests, gets nothing for the sake of its cache. */
const FULL = { times: 1.5, more: 4 }

/** FNV-1a over 32-bit words, in two lanes: 64 bits for each prefix that ends with a whole block, shortest first. */
const prefixNames = (prompt: Int32Array): readonly string[] => {
  const names: string[] = []
  let [a, b] = [0x811c9dc5, 0x9747b28c]
  for (const [i, id] of prompt.entries()) {
    a = Math.imul(a ^ id, 0x01000193) ^ (a >>> 15)
    b = Math.imul(b ^ id, 0x85ebca6b) ^ (b >>> 13)
    if ((i + 1) % BLOCK === 0) names.push(`prefix ${i + 1} ${a >>> 0} ${b >>> 0}`)
  }
  return names
}

/**
 * Makes an empty memory. A conversation goes where it was; a prompt where its longest prefix was; anything else, and what would go to an
 * engine that has far more to do than others, to the one with the least to do, the first of equals.
 *
 * Effects  a mutable value: it remembers the last `capacity` conversations and prefixes.
 * Cost     O(T) for T prompt tokens.
 *
 * @example
 * memberRoutes(100).choose({ prompt: Int32Array.of(1) }, [{ name: 'a', load: 2 }, { name: 'b', load: 1 }]) // 'b'
 */
export const memberRoutes = (capacity: number): MemberRoutes => {
  const seen = new Map<string, string>()

  const remember = (entry: string, name: string): void => {
    seen.delete(entry)
    seen.set(entry, name)
    const [oldest] = seen.keys()
    if (seen.size > capacity && oldest !== undefined) seen.delete(oldest)
  }

  return {
    size: () => seen.size,
    choose: ({ prompt, conversation }, candidates) => {
      const [first, ...others] = candidates
      if (first === undefined) return undefined
      const idle = others.reduce((least, other) => (other.load < least.load ? other : least), first)
      const limit = FULL.times * idle.load + FULL.more
      const prefixes = prefixNames(prompt)
      const entries = [
        ...(conversation === undefined ? [] : [`conversation ${conversation}`]),
        ...prefixes.toReversed(),
      ]
      const known = entries.flatMap((entry) => {
        const found = candidates.find(({ name }) => name === seen.get(entry))
        return found !== undefined && found.load <= limit ? [found.name] : []
      })
      const name = known[0] ?? idle.name
      for (const entry of entries.toReversed()) remember(entry, name)
      return name
    },
  }
}
