/** The workloads: names, sizes and amounts of work. The programs are `bodies.ts` and `peer.py`. */

export const KINDS = [
  'addAndRead',
  'smallOps',
  'call',
  'callTree',
  'chain',
  'reduction',
  'matMul',
  'forward',
  'decode',
  'trainStep',
  'update',
] as const

export type Kind = (typeof KINDS)[number]

export const REDUCTIONS = ['sumLast', 'sumFirst', 'sumAll', 'maxLast', 'argMaxLast', 'softmax'] as const

type Reduction = (typeof REDUCTIONS)[number]

/** The unit of a figure: work per second, or the time of one unit of work. */
type Reading = 'rate' | 'time'

export interface Workload {
  readonly name: string
  readonly kind: Kind
  /** A description of one run, for the page. */
  readonly title: string
  readonly sizes: Readonly<Record<string, number>>
  readonly reduction?: Reduction
  /** The work of one run. */
  readonly amount: number
  readonly unit: string
  readonly reading: Reading
  /** True if it is also measured with one thread. */
  readonly scaling: 'measured' | 'not measured'
  /** True if it belongs to the short form. */
  readonly extent: 'short form too' | 'long form only'
  /** Workloads of one family grow in size: who is too slow for one is spared the next. */
  readonly family: string
}

interface ModelSize {
  readonly hidden: number
  readonly layers: number
}

const MODEL_SIZES: readonly ModelSize[] = [
  { hidden: 128, layers: 4 },
  { hidden: 256, layers: 4 },
  { hidden: 512, layers: 8 },
]

/** The parameters that all models share: the peers' defaults. */
const MODEL = { heads: 4, kvHeads: 2, vocab: 256 }

const TRAINING = { batch: 16, length: 128 }
const DECODING = { batch: 64, past: 64 }

/** Operations of one pass of the chain: see `chain` in `bodies.ts`. */
const CHAIN_OPERATIONS = 8

const small: readonly Workload[] = [
  {
    name: 'add-and-read',
    kind: 'addAndRead',
    title: 'One addition of 8 numbers, and its result read',
    sizes: { repeats: 100 },
    amount: 100,
    unit: 'operations',
    reading: 'time',
    scaling: 'not measured',
    extent: 'short form too',
    family: 'add-and-read',
  },
  {
    name: 'small-ops',
    kind: 'smallOps',
    title: 'One addition of 8 numbers, in a chain of 200 whose end is read',
    sizes: { operations: 200, repeats: 10 },
    amount: 2000,
    unit: 'operations',
    reading: 'time',
    scaling: 'not measured',
    extent: 'short form too',
    family: 'small-ops',
  },
  {
    name: 'call',
    kind: 'call',
    title: 'One call of a compiled function: one tensor of 8 numbers in, one out',
    sizes: { repeats: 500 },
    amount: 500,
    unit: 'calls',
    reading: 'time',
    scaling: 'not measured',
    extent: 'short form too',
    family: 'call',
  },
  {
    name: 'call-tree',
    kind: 'callTree',
    title: 'One call of a compiled function: 100 tensors of 64 numbers in, 50 out',
    sizes: { tensors: 50, repeats: 50 },
    amount: 50,
    unit: 'calls',
    reading: 'time',
    scaling: 'not measured',
    extent: 'long form only',
    family: 'call-tree',
  },
]

const chains = [2 ** 14, 2 ** 20].map(
  (elements): Workload => ({
    name: `chain-${elements}`,
    kind: 'chain',
    title: `${CHAIN_OPERATIONS} elementwise operations on ${elements.toLocaleString('en-US')} numbers`,
    sizes: { elements },
    amount: elements * CHAIN_OPERATIONS,
    unit: 'elements',
    reading: 'rate',
    scaling: 'measured',
    extent: 'short form too',
    family: 'chain',
  }),
)

const reductions = REDUCTIONS.map(
  (reduction): Workload => ({
    name: `reduction-${reduction}`,
    kind: 'reduction',
    title: `${reduction} of 1,024 x 1,024 numbers`,
    sizes: { rows: 1024, columns: 1024 },
    reduction,
    amount: 1024 * 1024,
    unit: 'elements',
    reading: 'rate',
    scaling: 'not measured',
    extent: reduction === 'sumLast' || reduction === 'softmax' ? 'short form too' : 'long form only',
    family: `reduction-${reduction}`,
  }),
)

const products = [
  { batch: 1, size: 512, title: 'Product of two 512 x 512 matrices' },
  { batch: 64, size: 128, title: '64 products of 128 x 128 matrices, the second transposed' },
].map(
  ({ batch, size, title }): Workload => ({
    name: `mat-mul-${batch}x${size}`,
    kind: 'matMul',
    title,
    sizes: { batch, size },
    amount: 2 * batch * size ** 3,
    unit: 'FLOP',
    reading: 'rate',
    scaling: 'measured',
    extent: 'long form only',
    family: `mat-mul-${batch}`,
  }),
)

const modelWorkloads = (
  kind: 'forward' | 'decode' | 'trainStep' | 'update',
  family: string,
  what: string,
): readonly Workload[] =>
  MODEL_SIZES.map(({ hidden, layers }) => ({
    name: `${family}-${hidden}`,
    kind,
    title: `${what}, hidden ${hidden}, ${layers} layers`,
    sizes: { ...MODEL, hidden, layers, ...(kind === 'decode' ? DECODING : TRAINING) },
    amount: kind === 'decode' ? DECODING.batch : TRAINING.batch * TRAINING.length,
    unit: 'tokens',
    reading: 'rate',
    scaling: kind === 'trainStep' || kind === 'forward' ? 'measured' : 'not measured',
    extent: hidden === 128 ? 'short form too' : 'long form only',
    family,
  }))

/** All workloads, in the order of the page; within a family, from small to large. */
export const WORKLOADS: readonly Workload[] = [
  ...modelWorkloads('trainStep', 'train-step', 'Training step (loss and gradients)'),
  ...modelWorkloads('update', 'update', 'Training step and AdamW'),
  ...modelWorkloads('forward', 'forward', 'Forward pass (logits of all positions)'),
  ...modelWorkloads('decode', 'decode', 'Decoding step (64 rows, 64 cached positions)'),
  ...products,
  ...chains,
  ...reductions,
  ...small,
]
