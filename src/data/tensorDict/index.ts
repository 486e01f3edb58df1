/** TensorDicts: batches of tensors, ragged rows and values under typed keys. */
export type { JoinOptions } from './alike.js'
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
} from './arithmetic.js'
export { autoBatch, withBatchShape } from './batchShape.js'
export { allClose, diff, equals, hash, type TensorDictDifference, type Tolerance } from './compare.js'
export { exclude, modify, type Partition, partitionKeys, remove, rename, select, set } from './edit.js'
export {
  dropEmptyNodes,
  type FlatSchema,
  flattenKeys,
  type NestedSchema,
  unflattenKeys,
  type WithoutEmptyNodes,
} from './flatKeys.js'
export { ellipsis, type IndexPart, index, mask, newAxis, type Range } from './indexing.js'
export { type FormatOptions, format, toNested } from './inspect.js'
export { concat, setAt, stack, where } from './joining.js'
export type {
  At,
  ExcludeAt,
  ExistingKey,
  ExistingKeys,
  Key as TensorDictKey,
  NoSuchKey,
  NotANode,
  Path,
  PlaceKey,
  RenameAt,
  SelectAt,
  SetAt,
} from './keys.js'
export {
  type Data,
  data,
  filledRows,
  fromPadded,
  isLeaf,
  joinRows,
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
} from './leaf.js'
export {
  filterMapLeaves,
  foldLeaves,
  leafEntries,
  leafPaths,
  mapLeaves,
  nodePaths,
  skeleton,
  zipLeaves,
} from './leaves.js'
export type { Mask } from './masks.js'
export { assign, type DeepMerge, type LeafAgainstNode, merge, mergeWith } from './merge.js'
export {
  type AsPaddedTensorOptions,
  asNestedTensor,
  asPaddedTensor,
  type Nested,
  type Padded,
  type PaddedTensors,
} from './nestedTensor.js'
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
} from './padding.js'
export { type Over, type Reduction, reduce, reduceMasked } from './reduce.js'
export {
  flip,
  type NarrowOptions,
  narrow,
  repeat,
  repeatInterleave,
  roll,
  slice,
  take,
} from './selecting.js'
export {
  expand,
  flattenAxes,
  permute,
  reshape,
  squeeze,
  transpose,
  unflattenAxis,
  unsqueeze,
} from './shape.js'
export { type SplitIntoOptions, splitEach, splitEvery, splitInto, splitSizes, unbind } from './splitting.js'
export {
  batchSize,
  type Entries,
  type Entry,
  find,
  get,
  has,
  isTensorDict,
  type Merge,
  type SchemaOf,
  TensorDict,
  TensorDictError,
  type TensorDictErrorDetails,
  type TensorDictProblem,
} from './tensorDict.js'
export { traverseLeaves, traverseLeavesTask } from './traverse.js'
