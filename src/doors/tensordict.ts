/**
 * For those who work with batches: `TensorDict`, its typed keys and its operations (`get`, `set`,
 * `merge`, `concat`, `index`, `padSequence` ...), and specs that describe and check its entries.
 * The root has all of it as the namespace `TD`. Importing it loads neither onnxruntime nor a tfjs
 * backend.
 *
 * @module
 */
export {
  type Arrays,
  type ArraysSchema,
  fromArrays,
  fromNested,
  type NestedFailure,
  type ZerosOptions,
  zeros,
} from '../data/nested.js'
export {
  dataSpec,
  type Infer,
  type LeafSpec,
  leafOrNode,
  metaSpec,
  type NodeSpec,
  nodeSpec,
  raggedSpec,
  refine,
  requireSpec,
  type Spec,
  type SpecMismatch,
  sameSpec,
  tensorSpec,
} from '../data/spec.js'
export type { JoinOptions } from '../data/tensorDict/alike.js'
export {
  add,
  type CastOptions,
  cast,
  div,
  type ElementwiseOp,
  type LiftedOp,
  lift,
  mul,
  sub,
} from '../data/tensorDict/arithmetic.js'
export { autoBatch, withBatchShape } from '../data/tensorDict/batchShape.js'
export { allClose, diff, equals, hash, type TensorDictDifference, type Tolerance } from '../data/tensorDict/compare.js'
export { exclude, modify, type Partition, partitionKeys, remove, rename, select, set } from '../data/tensorDict/edit.js'
export {
  dropEmptyNodes,
  type FlatSchema,
  flattenKeys,
  type NestedSchema,
  unflattenKeys,
  type WithoutEmptyNodes,
} from '../data/tensorDict/flatKeys.js'
export { ellipsis, type IndexPart, index, mask, newAxis, type Range } from '../data/tensorDict/indexing.js'
export { type FormatOptions, format, toNested } from '../data/tensorDict/inspect.js'
export { concat, setAt, stack, where } from '../data/tensorDict/joining.js'
export type {
  At,
  ExcludeAt,
  ExistingKey,
  ExistingKeys,
  NoSuchKey,
  NotANode,
  Path,
  PlaceKey,
  RenameAt,
  SelectAt,
  SetAt,
  TensorDictKey,
} from '../data/tensorDict/keys.js'
export {
  type Data,
  data,
  fromPadded,
  isLeaf,
  type Leaf,
  type Meta,
  meta,
  type PaddedRows,
  padRows,
  type Ragged,
  type RaggedType,
  ragged,
  raggedLength,
  raggedRow,
  raggedRows,
  rowLengths,
  toPadded,
} from '../data/tensorDict/leaf.js'
export {
  filterMapLeaves,
  foldLeaves,
  leafEntries,
  leafPaths,
  mapLeaves,
  skeleton,
  zipLeaves,
} from '../data/tensorDict/leaves.js'
export type { Mask } from '../data/tensorDict/masks.js'
export { assign, type DeepMerge, merge, mergeWith } from '../data/tensorDict/merge.js'
export {
  type AsPaddedTensorOptions,
  asNestedTensor,
  asPaddedTensor,
  type Nested,
  type Padded,
  type PaddedTensors,
} from '../data/tensorDict/nestedTensor.js'
export {
  crop,
  type Filler,
  type PaddedBatch,
  type PaddedSequences,
  type PadSequenceOptions,
  pad,
  padSequence,
  padToMultiple,
  unpadBatch,
  unpadSequence,
  type Width,
} from '../data/tensorDict/padding.js'
export { type Over, type Reduction, reduce, reduceMasked } from '../data/tensorDict/reduce.js'
export {
  flip,
  type NarrowOptions,
  narrow,
  repeat,
  repeatInterleave,
  roll,
  slice,
  take,
} from '../data/tensorDict/selecting.js'
export {
  expand,
  flattenAxes,
  permute,
  reshape,
  squeeze,
  transpose,
  unflattenAxis,
  unsqueeze,
} from '../data/tensorDict/shape.js'
export {
  type SplitIntoOptions,
  splitEach,
  splitEvery,
  splitInto,
  splitSizes,
  unbind,
} from '../data/tensorDict/splitting.js'
export {
  batchSize,
  type Entries,
  type Entry,
  find,
  findData,
  get,
  has,
  isTensorDict,
  type Merge,
  type SchemaOf,
  TensorDict,
  TensorDictError,
  type TensorDictErrorDetails,
  type TensorDictProblem,
} from '../data/tensorDict/tensorDict.js'
export { traverseLeaves, traverseLeavesTask } from '../data/tensorDict/traverse.js'
