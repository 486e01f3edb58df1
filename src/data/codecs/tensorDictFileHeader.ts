/**
 * The header of a TensorDict file.
 *
 * | bytes | what |
 * | --- | --- |
 * | 0 to 7 | `TANDEMTD` |
 * | 8 to 11 | version, 1 |
 * | 12 to 15 | CRC-32 of everything from byte 16 to the end of the JSON |
 * | 16 to 23 | length of the JSON, blanks at its end included |
 * | 24 to 31 | length of the file |
 * | 32 to ... | JSON: the tree of entries, each leaf with kind, type, shape and the blocks of its numbers or values |
 * | ... | the blocks, in the order of the tree, each at the next multiple of 64 bytes |
 *
 * Numbers are little-endian. Keys are in lists, which keep their order for all keys.
 */
import { crc32, type FormatFailure, parseJson } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { elementCount } from './storage.js'

/** The bytes of one leaf or of a part of it. */
export interface Block {
  /** Counted from the start of the first block. */
  readonly begin: number
  readonly end: number
  readonly crc: number
}

export type NumberType = 'float32' | 'int32' | 'bool'

export const NUMBER_BYTES: Readonly<Record<NumberType, number>> = { float32: 4, int32: 4, bool: 1 }

/** The header's description of a leaf. */
export type LeafPlan =
  | { readonly kind: 'tensor'; readonly type: NumberType; readonly shape: readonly number[]; readonly values: Block }
  | { readonly kind: 'ragged'; readonly type: NumberType; readonly lengths: Block; readonly values: Block }
  | { readonly kind: 'data'; readonly codec: string; readonly items: Block }
  | { readonly kind: 'meta'; readonly codec: string; readonly value: Block }

/** The header's description of a node. */
export interface NodePlan {
  readonly kind: 'node'
  readonly batchShape: readonly number[]
  readonly entries: readonly (readonly [string, EntryPlan])[]
}

export type EntryPlan = LeafPlan | NodePlan

/** Returns the blocks of an entry in their order in the file. */
export const blocksOf = (plan: EntryPlan): readonly Block[] => {
  switch (plan.kind) {
    case 'node':
      return plan.entries.flatMap(([, entry]) => blocksOf(entry))
    case 'tensor':
      return [plan.values]
    case 'ragged':
      return [plan.lengths, plan.values]
    case 'data':
      return [plan.items]
    case 'meta':
      return [plan.value]
  }
}

/** The maximum nesting of a tree, because reading a deeper one could overflow the stack. */
export const MAX_LEVELS = 200

const MAGIC = new TextEncoder().encode('TANDEMTD')
const VERSION = 1
/** The number of bytes before the JSON. */
export const PREAMBLE_BYTES = 32
const CHECKED_FROM = 16
const ALIGNMENT = 64

/** Returns the next position where a block may begin. */
export const aligned = (place: number): number => Math.ceil(place / ALIGNMENT) * ALIGNMENT

/** Creates the failure of a malformed file. */
export const failure = (reason: string): FormatFailure => ({ _tag: 'FormatFailure', format: 'TensorDict file', reason })

export const failHeader = (reason: string): E.Either<FormatFailure, never> => E.left(failure(reason))

/** Encodes preamble and JSON for blocks that end at `payloadBytes`. */
export const formatHeader = (tree: NodePlan, payloadBytes: number): Uint8Array => {
  const json = new TextEncoder().encode(JSON.stringify(tree))
  const size = aligned(PREAMBLE_BYTES + json.length)
  const header = new Uint8Array(size).fill(0x20, PREAMBLE_BYTES)
  const view = new DataView(header.buffer)
  header.set(MAGIC)
  view.setUint32(8, VERSION, true)
  view.setBigUint64(16, BigInt(size - PREAMBLE_BYTES), true)
  view.setBigUint64(24, BigInt(size + payloadBytes), true)
  header.set(json, PREAMBLE_BYTES)
  view.setUint32(12, crc32(header.subarray(CHECKED_FROM)), true)
  return header
}

/** Returns the length of preamble and JSON together, from the preamble of a file of `fileBytes`. */
export const headerBytes = (preamble: Uint8Array, fileBytes: number): E.Either<FormatFailure, number> => {
  if (fileBytes < PREAMBLE_BYTES)
    return failHeader(`the file has ${fileBytes} bytes, less than the first ${PREAMBLE_BYTES} of any`)
  if (!MAGIC.every((byte, i) => preamble[i] === byte)) return failHeader("the file does not begin with 'TANDEMTD'")
  const view = new DataView(preamble.buffer, preamble.byteOffset, PREAMBLE_BYTES)
  const version = view.getUint32(8, true)
  if (version !== VERSION) return failHeader(`the file has version ${version}; this program reads version ${VERSION}`)
  const [json, total] = [view.getBigUint64(16, true), view.getBigUint64(24, true)]
  if (total !== BigInt(fileBytes)) return failHeader(`the file should have ${total} bytes, but has ${fileBytes}`)
  if (json > BigInt(fileBytes - PREAMBLE_BYTES))
    return failHeader(`a header of ${json} bytes does not fit into ${fileBytes}`)
  return E.right(PREAMBLE_BYTES + Number(json))
}

const natural = z.number().int().nonnegative()
const blockSchema = z.strictObject({ begin: natural, end: natural, crc: natural })
const numberType = z.enum(['float32', 'int32', 'bool'])

const nodeSchema = z.strictObject({
  kind: z.literal('node'),
  batchShape: z.array(natural),
  entries: z.array(z.tuple([z.string(), z.unknown()])),
})

const entrySchema = z.discriminatedUnion('kind', [
  nodeSchema,
  z.strictObject({ kind: z.literal('tensor'), type: numberType, shape: z.array(natural), values: blockSchema }),
  z.strictObject({ kind: z.literal('ragged'), type: numberType, lengths: blockSchema, values: blockSchema }),
  z.strictObject({ kind: z.literal('data'), codec: z.string(), items: blockSchema }),
  z.strictObject({ kind: z.literal('meta'), codec: z.string(), value: blockSchema }),
])

/** Parses the JSON in bytes. */
export const jsonOfBytes = (bytes: Uint8Array): E.Either<string, unknown> =>
  E.Monad.chain(
    E.tryCatch(
      () => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes),
      () => 'the text is not UTF-8',
    ),
    parseJson,
  )

/** Formats a path for messages. */
export const place = (path: readonly string[]): string =>
  path.map((key) => JSON.stringify(key)).join(' > ') || 'the root'

/** Checks a parsed leaf against its node and its blocks. Returns the problem, or undefined. */
const leafProblem = (leaf: LeafPlan, batchShape: readonly number[]): string | undefined => {
  const rows = elementCount(batchShape)
  if (rows === undefined) return `batch shape [${batchShape.join()}] has more elements than can be counted`
  const length = ({ begin, end }: Block): number => end - begin
  switch (leaf.kind) {
    case 'tensor': {
      if (!batchShape.every((size, i) => leaf.shape[i] === size)) {
        return `shape [${leaf.shape.join()}] does not begin with the batch shape [${batchShape.join()}]`
      }
      const bytes = elementCount([...leaf.shape, NUMBER_BYTES[leaf.type]])
      return length(leaf.values) === bytes
        ? undefined
        : `${length(leaf.values)} bytes for ${leaf.type} [${leaf.shape.join()}]`
    }
    case 'ragged':
      if (length(leaf.lengths) !== 4 * rows) return `${length(leaf.lengths)} bytes for the lengths of ${rows} rows`
      return length(leaf.values) % NUMBER_BYTES[leaf.type] === 0
        ? undefined
        : `${length(leaf.values)} bytes of ${leaf.type}`
    case 'data':
    case 'meta':
      return undefined
  }
}

const parseNode = (raw: z.infer<typeof nodeSchema>, path: readonly string[]): E.Either<FormatFailure, NodePlan> => {
  const entries = new Map<string, EntryPlan>()
  for (const [key, rawEntry] of raw.entries) {
    const here = [...path, key]
    if (entries.has(key)) return failHeader(`${place(here)} is a duplicate key`)
    const entry = parseEntry(rawEntry, here, raw.batchShape)
    if (E.isLeft(entry)) return entry
    entries.set(key, entry.right)
  }
  return E.right({ kind: 'node', batchShape: raw.batchShape, entries: [...entries] })
}

const parseEntry = (
  raw: unknown,
  path: readonly string[],
  batchShape: readonly number[],
): E.Either<FormatFailure, EntryPlan> => {
  if (path.length > MAX_LEVELS) return failHeader(`the tree has more than ${MAX_LEVELS} levels`)
  const parsed = entrySchema.safeParse(raw)
  if (!parsed.success) return failHeader(`${place(path)}: ${z.prettifyError(parsed.error)}`)
  if (parsed.data.kind === 'node') {
    const { batchShape: own } = parsed.data
    return batchShape.every((size, i) => own[i] === size)
      ? parseNode(parsed.data, path)
      : failHeader(`${place(path)}: batch shape [${own.join()}] does not begin with [${batchShape.join()}]`)
  }
  const problem = leafProblem(parsed.data, batchShape)
  return problem === undefined ? E.right(parsed.data) : failHeader(`${place(path)}: ${problem}`)
}

/** Returns the reason why blocks do not follow each other in `payloadBytes`, or undefined. */
const layoutProblem = (blocks: readonly Block[], payloadBytes: number): string | undefined => {
  let end = 0
  for (const block of blocks) {
    if (block.begin !== aligned(end)) return `a block begins at byte ${block.begin} instead of ${aligned(end)}`
    if (block.end < block.begin) return `a block from byte ${block.begin} to ${block.end}`
    if (block.end > payloadBytes) return `a block ends at byte ${block.end}, but there are only ${payloadBytes}`
    end = block.end
  }
  return end === payloadBytes ? undefined : `${payloadBytes - end} bytes follow the last block`
}

/** The layout of a file: the length of the header, and the tree. */
export interface FilePlan {
  readonly headerBytes: number
  readonly tree: NodePlan
}

/**
 * Parses the tree of a file of `fileBytes` from its preamble and JSON.
 *
 * Errors   `Left(FormatFailure)`, with the path, for a wrong checksum, a malformed or unknown
 *          field, a duplicate key, shapes that do not fit batch shapes or bytes, more than 200
 *          levels, or blocks that overlap, leave gaps or do not end with the file.
 */
export const parseTree = (header: Uint8Array, fileBytes: number): E.Either<FormatFailure, FilePlan> => {
  const stated = new DataView(header.buffer, header.byteOffset, PREAMBLE_BYTES).getUint32(12, true)
  if (crc32(header.subarray(CHECKED_FROM)) !== stated) return failHeader('the header is damaged: its checksum is wrong')
  const json = jsonOfBytes(header.subarray(PREAMBLE_BYTES))
  if (E.isLeft(json)) return failHeader(`the header: ${json.left}`)
  const root = nodeSchema.safeParse(json.right)
  if (!root.success) return failHeader(`the root: ${z.prettifyError(root.error)}`)
  const tree = parseNode(root.data, [])
  if (E.isLeft(tree)) return tree
  const problem = layoutProblem(blocksOf(tree.right), fileBytes - header.length)
  return problem === undefined ? E.right({ headerBytes: header.length, tree: tree.right }) : failHeader(problem)
}
