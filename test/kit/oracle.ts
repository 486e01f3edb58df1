/** Slow and obvious float64 versions of the fused operations, on flat row-major arrays. */

type Numbers = readonly number[]

const sum = (xs: Numbers): number => xs.reduce((total, x) => total + x, 0)

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)

/** Rows of `width` elements. */
const rowsOf = (data: Numbers, width: number): number[][] =>
  range(data.length / width).map((i) => data.slice(i * width, (i + 1) * width))

export const rmsNormOracle = (x: Numbers, weight: Numbers, epsilon: number): number[] =>
  rowsOf(x, weight.length).flatMap((row) => {
    const root = Math.sqrt(sum(row.map((v) => v * v)) / row.length + epsilon)
    return row.map((v, i) => (v / root) * weight[i]!)
  })

export const layerNormOracle = (x: Numbers, weight: Numbers, bias: Numbers, epsilon: number): number[] =>
  rowsOf(x, weight.length).flatMap((row) => {
    const mean = sum(row) / row.length
    const deviation = Math.sqrt(sum(row.map((v) => (v - mean) ** 2)) / row.length + epsilon)
    return row.map((v, i) => ((v - mean) / deviation) * weight[i]! + bias[i]!)
  })

/**
 * `0.5 x (1 + erf(x / sqrt 2))` with erf by its series, which is exact to 1e-14 for the small x of
 * the tests.
 */
export const geluOracle = (x: Numbers): number[] =>
  x.map((v) => {
    const z = v / Math.SQRT2
    let [term, total] = [z, z]
    for (let n = 1; n < 200; n++) {
      term *= (-z * z) / n
      total += term / (2 * n + 1)
    }
    return 0.5 * v * (1 + (2 / Math.sqrt(Math.PI)) * total)
  })

export const geluTanhOracle = (x: Numbers): number[] =>
  x.map((v) => 0.5 * v * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v ** 3))))

export const swiGluOracle = (gate: Numbers, up: Numbers): number[] =>
  gate.map((g, i) => (g / (1 + Math.exp(-g))) * up[i]!)

/** x `[N, heads * 2 * half]`, one position for each of the N; tables `[M, half]`. */
export const rotaryOracle = (
  x: Numbers,
  positions: Numbers,
  table: { readonly cos: Numbers; readonly sin: Numbers; readonly half: number },
): number[] => {
  const { cos, sin, half } = table
  return rowsOf(x, x.length / positions.length).flatMap((row, n) =>
    rowsOf(row, 2 * half).flatMap((head) =>
      head.map((v, i) => {
        const angle = positions[n]! * half + (i % half)
        const partner = i < half ? -head[i + half]! : head[i - half]!
        return v * cos[angle]! + partner * sin[angle]!
      }),
    ),
  )
}

const logSoftmaxRow = (row: Numbers): number[] => {
  const highest = Math.max(...row)
  const logSum = highest + Math.log(sum(row.map((v) => Math.exp(v - highest))))
  return row.map((v) => v - logSum)
}

export const gatherLogProbsOracle = (logits: Numbers, ids: Numbers): number[] =>
  rowsOf(logits, logits.length / ids.length).map((row, n) => logSoftmaxRow(row)[ids[n]!]!)

export const entropyOracle = (logits: Numbers, vocabulary: number): number[] =>
  rowsOf(logits, vocabulary).map((row) => -sum(logSoftmaxRow(row).map((p) => Math.exp(p) * p)))

export interface MatMulShape {
  readonly batch: number
  readonly m: number
  readonly k: number
  readonly n: number
  readonly alpha: number
  readonly transposeA: boolean
  readonly transposeB: boolean
}

export const matMulOracle = (a: Numbers, b: Numbers, shape: MatMulShape): number[] => {
  const { batch, m, k, n, alpha, transposeA, transposeB } = shape
  const left = (p: number, i: number, j: number): number => a[p * m * k + (transposeA ? j * m + i : i * k + j)]!
  const right = (p: number, i: number, j: number): number => b[p * k * n + (transposeB ? j * k + i : i * n + j)]!
  return range(batch).flatMap((p) =>
    range(m).flatMap((i) => range(n).map((j) => alpha * sum(range(k).map((l) => left(p, i, l) * right(p, l, j))))),
  )
}

/**
 * Keys and values `[P, K, g, C, D]` with `g` 1 or G; a bias for each `[P, K, G, R, T, C]`, or none.
 */
export interface SourceOracle {
  readonly keys: Numbers
  readonly values: Numbers
  readonly groups: number
  readonly places: number
  readonly bias: Numbers | undefined
}

/** The sizes of queries `[P, K, G, R, T, D]`. */
export interface AttentionShape {
  readonly p: number
  readonly k: number
  readonly g: number
  readonly r: number
  readonly t: number
  readonly d: number
}

export const attentionOracle = (
  queries: Numbers,
  sources: readonly SourceOracle[],
  {
    shape,
    scale,
    softCap = null,
  }: { readonly shape: AttentionShape; readonly scale: number; readonly softCap?: number | null },
): number[] => {
  const cap = (score: number): number => (softCap === null ? score : softCap * Math.tanh(score / softCap))
  const { g, r, t, d } = shape
  return rowsOf(queries, d).flatMap((query, index) => {
    const heads = Math.floor(index / (g * r * t)) // prompt and key-value head together
    const group = Math.floor(index / (r * t)) % g
    const places = sources.flatMap(({ keys, values, groups, places: c, bias }) => {
      const first = heads * groups + (groups === 1 ? 0 : group)
      return range(c).map((place) => {
        const at = (first * c + place) * d
        const key = keys.slice(at, at + d)
        const score = cap(scale * sum(query.map((q, i) => q * key[i]!))) + (bias?.[index * c + place] ?? 0)
        return { score, value: values.slice(at, at + d) }
      })
    })
    const highest = Math.max(...places.map(({ score }) => score))
    const weights = places.map(({ score }) => Math.exp(score - highest))
    const total = sum(weights)
    return range(d).map((i) => sum(places.map(({ value }, j) => (weights[j]! / total) * value[i]!)))
  })
}

/** Central differences of a scalar function of several arrays. */
export const numericGradients = (
  f: (inputs: readonly Numbers[]) => number,
  inputs: readonly Numbers[],
  step = 1e-5,
): number[][] =>
  inputs.map((input, i) =>
    input.map((x, j) => {
      const moved = (to: number): number =>
        f(inputs.map((other, l) => (l === i ? other.map((v, n) => (n === j ? to : v)) : other)))
      return (moved(x + step) - moved(x - step)) / (2 * step)
    }),
  )
