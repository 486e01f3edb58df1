/**
 * Min-p, top-k and top-p without sorting the vocabulary.
 *
 * A row is counted once into buckets of neighboring logits. Only the bucket in which a cut falls is
 * sorted. The kept tokens are described by their lowest logit.
 */

/**
 * The conversion of logits to weights: `exp((logit - max) * inverseTemperature)`, which is 1 for
 * the most probable token.
 */
export interface Scale {
  /** The largest logit, finite. */
  readonly max: number
  readonly inverseTemperature: number
}

/** The kept tokens: all above a logit, and the first `ties` of those equal to it. */
export interface KeptTokens {
  readonly lowest: number
  readonly ties: number
  readonly count: number
  /** Sum of their weights. */
  readonly mass: number
}

/** Cuts. Disabled by `topK` 0, `topP` 1 and `minP` 0. */
export interface Cuts {
  readonly minP: number
  readonly topK: number
  readonly topP: number
}

export const NO_CUTS: Cuts = { minP: 0, topK: 0, topP: 1 }

const PER_NAT = 128
/**
 * Range of the buckets below the largest logit, in nats. Lower logits share one bucket after the
 * last.
 */
const REACH = 32
const TAIL = REACH * PER_NAT

/** `exp(-b / PER_NAT)` at the start of each bucket. */
const BUCKET_WEIGHTS = Float64Array.from({ length: TAIL }, (_, b) => Math.exp(-b / PER_NAT))

/** Computes `exp(-r)` for `0 <= r < 1 / PER_NAT`. The series is exact to 3e-13. */
const smallWeight = (r: number): number => 1 - r * (1 - r * (0.5 - r * (1 / 6 - r * (1 / 24))))

/**
 * Computes `exp(-distance)` for a distance of at least 0: relative error below 1e-12, three times
 * as fast as `Math.exp`.
 */
const weight = (distance: number): number => {
  if (distance >= REACH) return Math.exp(-distance)
  const scaled = distance * PER_NAT
  const bucket = scaled | 0
  return BUCKET_WEIGHTS[bucket]! * smallWeight((scaled - bucket) / PER_NAT)
}

const bucketOf = (distance: number): number => (distance >= REACH ? TAIL : (distance * PER_NAT) | 0)

interface Histogram {
  readonly counts: Int32Array
  readonly masses: Float64Array
  /** The kept tokens if no further cut applies. */
  readonly kept: KeptTokens
}

/** Counts the logits at most `reach` nats below the largest, and sums their weights. */
const histogram = (logits: Float32Array, { max, inverseTemperature }: Scale, reach: number): Histogram => {
  const counts = new Int32Array(TAIL + 1)
  const masses = new Float64Array(TAIL + 1)
  let lowest = max
  for (let i = 0; i < logits.length; i++) {
    const logit = logits[i]!
    const distance = (max - logit) * inverseTemperature
    if (!(distance <= reach) || distance === Number.POSITIVE_INFINITY) continue
    if (logit < lowest) lowest = logit
    if (distance >= REACH) {
      counts[TAIL]!++
      masses[TAIL]! += Math.exp(-distance)
      continue
    }
    const scaled = distance * PER_NAT
    const bucket = scaled | 0
    counts[bucket]!++
    masses[bucket]! += smallWeight((scaled - bucket) / PER_NAT)
  }
  const lastBucket = bucketOf((max - lowest) * inverseTemperature)
  let [count, mass] = [0, 0]
  for (let b = 0; b <= lastBucket; b++) {
    if (b < TAIL) masses[b]! *= BUCKET_WEIGHTS[b]!
    count += counts[b]!
    mass += masses[b]!
  }
  return { counts, masses, kept: { lowest, ties: count, count, mass } }
}

/** Returns the logits of one bucket, largest first. */
const membersOf = (logits: Float32Array, scale: Scale, { counts, kept }: Histogram, bucket: number): Float32Array => {
  const members = new Float32Array(counts[bucket]!)
  let size = 0
  for (let i = 0; i < logits.length; i++) {
    const logit = logits[i]!
    if (logit < kept.lowest) continue
    if (bucketOf((scale.max - logit) * scale.inverseTemperature) === bucket) members[size++] = logit
  }
  return members.sort().reverse()
}

/** A start or end of taking tokens: a count and a mass. */
interface Bound {
  readonly count: number
  readonly mass: number
}

const NOTHING: Bound = { count: 0, mass: 0 }

const EVERYTHING: Bound = { count: Number.POSITIVE_INFINITY, mass: Number.POSITIVE_INFINITY }

/**
 * Takes logits, largest first, in addition to those taken before, until count or mass is reached or
 * all are taken.
 */
const take = (
  logits: Float32Array,
  scale: Scale,
  { from, until }: { readonly from: Bound; readonly until: Bound },
): KeptTokens => {
  let { count, mass } = from
  let [lowest, ties] = [scale.max, 0]
  for (const logit of logits) {
    if (count >= until.count || mass >= until.mass) break
    ties = logit === lowest ? ties + 1 : 1
    lowest = logit
    mass += weight((scale.max - logit) * scale.inverseTemperature)
    count++
  }
  return { lowest, ties, count, mass }
}

/**
 * Takes the most probable tokens until their count reaches `count` or their mass reaches `mass`.
 */
const firstUntil = (logits: Float32Array, scale: Scale, rough: Histogram, until: Bound): KeptTokens => {
  const { counts, masses } = rough
  let [bucket, count, mass] = [0, 0, 0]
  while (bucket < TAIL && count + counts[bucket]! < until.count && mass + masses[bucket]! < until.mass) {
    count += counts[bucket]!
    mass += masses[bucket]!
    bucket++
  }
  return take(membersOf(logits, scale, rough, bucket), scale, { from: { count, mass }, until })
}

/**
 * Returns the largest logits, largest first, at most `count` and without -Infinity. Needs one pass,
 * with a buffer that is sorted when full.
 */
const largest = (logits: Float32Array, count: number): Float32Array => {
  const buffer = new Float32Array(2 * count)
  let size = 0
  let least = Number.NEGATIVE_INFINITY
  for (let i = 0; i < logits.length; i++) {
    const logit = logits[i]!
    if (!(logit > least)) continue
    buffer[size++] = logit
    if (size < buffer.length) continue
    buffer.sort().copyWithin(0, count)
    size = count
    least = buffer[0]!
  }
  return buffer.subarray(0, size).sort().reverse().subarray(0, count)
}

/** Largest k for which top-k selects tokens without buckets. */
const FEW = 4096

/**
 * Applies min-p, then top-k, then top-p to a row. At least the most probable token is kept.
 *
 * Top-p refers to the mass that min-p and top-k leave. Of equal logits, those of lower ids are
 * kept. Exactly k tokens pass top-k, whereas vLLM and Transformers keep all that equal the last
 * one.
 *
 * Shapes   logits `[V]` without NaN, none above `scale.max`; -Infinity is never kept.
 * Cost     O(V), plus sorting the logits of one bucket of 1/128 nat for each cut.
 * Source   the order of vLLM's sampler.
 *
 * @example
 * keep(Float32Array.of(0, 2, 1), { max: 2, inverseTemperature: 1 }, { minP: 0, topK: 2, topP: 1 }).lowest // 1
 */
export const keep = (logits: Float32Array, scale: Scale, { minP, topK, topP }: Cuts): KeptTokens => {
  const reach = -Math.log(minP)
  if (topK > 0 && topK <= FEW) {
    const sorted = largest(logits, topK).filter((logit) => (scale.max - logit) * scale.inverseTemperature <= reach)
    const all = take(sorted, scale, { from: NOTHING, until: EVERYTHING })
    if (topP >= 1) return all
    return take(sorted, scale, { from: NOTHING, until: { count: all.count, mass: topP * all.mass } })
  }
  const rough = histogram(logits, scale, reach)
  const counted =
    topK > 0 && topK < rough.kept.count ? firstUntil(logits, scale, rough, { ...EVERYTHING, count: topK }) : rough.kept
  return topP >= 1 ? counted : firstUntil(logits, scale, rough, { count: counted.count, mass: topP * counted.mass })
}

/**
 * Returns the kept token at `point`, uniform in [0, 1), in order of ids (inverse transform).
 *
 * @example
 * const [logits, scale] = [Float32Array.of(0, 0), { max: 0, inverseTemperature: 1 }]
 * draw(logits, scale, { kept: keep(logits, scale, NO_CUTS), point: 0.7 }) // 1
 */
export const draw = (
  logits: Float32Array,
  { max, inverseTemperature }: Scale,
  { kept, point }: { readonly kept: KeptTokens; readonly point: number },
): number => {
  let rest = point * kept.mass
  let ties = kept.ties
  let last = 0
  for (let i = 0; i < logits.length; i++) {
    const logit = logits[i]!
    if (logit < kept.lowest || (logit === kept.lowest && ties-- <= 0)) continue
    rest -= weight((max - logit) * inverseTemperature)
    if (rest < 0) return i
    last = i
  }
  return last // the last token, if rounding leaves a remainder
}

/**
 * Returns the ids of the kept tokens, most probable first; of equal ones, the lower id first.
 *
 * Cost     O(V), plus sorting the kept tokens.
 *
 * @example
 * keptIds(Float32Array.of(0, 2, 1), { lowest: 1, ties: 1, count: 2, mass: 1 }) // [1, 2]
 */
export const keptIds = (logits: Float32Array, kept: KeptTokens): readonly number[] => {
  const ids: number[] = []
  let ties = kept.ties
  for (let i = 0; i < logits.length; i++) {
    const logit = logits[i]!
    if (logit > kept.lowest || (logit === kept.lowest && ties-- > 0)) ids.push(i)
  }
  return ids.sort((a, b) => logits[b]! - logits[a]! || a - b)
}
