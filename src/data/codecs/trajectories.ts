/**
 * Batches of trajectories as lossless JSON Lines.
 *
 * A batch is a header and one line for each element of its first batch axis. The header contains
 * batch shape, kinds, types and meta values, so that reading needs no guesses; a line has the
 * element's entries under their nested keys. Batches follow one another, so a file grows by
 * appending. NaN and infinities are strings in numeric leaves; -0 is written `-0`; values that JSON
 * does not have are marked (`encodeValue`).
 */
import {
  type ByteSource,
  type FileFailure,
  type Json,
  parseJson,
  type RowFailure,
  readJsonLines,
} from '@tandem-rl/base'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { leafEntries } from '../tensorDict/leaves.js'
import { type TensorDict, TensorDictError } from '../tensorDict/tensorDict.js'
import { elementJson, flatElements, leafOf, parseElement } from './trajectoryElements.js'
import {
  buildTensorDict,
  headerOf,
  type NodeSchema,
  parseTrajectoryHeader,
  type SchemaLeaf,
  schemaLeaves,
  schemaOf,
} from './trajectorySchema.js'

/** A failure to read a file of trajectories. */
export interface TrajectoryFailure {
  readonly _tag: 'TrajectoryFailure'
  /**
   * `torn`: the last batch is incomplete, as after a crash, and everything before it is valid.
   * `damaged`: anything else.
   */
  readonly kind: 'torn' | 'damaged'
  /** The line number, counted from 1; 0 for input without lines. */
  readonly line: number
  readonly path: readonly string[]
  readonly reason: string
}

const fail = (line: number, reason: string, path: readonly string[] = []): E.Either<TrajectoryFailure, never> => {
  const where = path.length > 0 ? ` ${path.map((key) => JSON.stringify(key)).join(' > ')}:` : ''
  return E.left({ _tag: 'TrajectoryFailure', kind: 'damaged', line, path, reason: `line ${line}:${where} ${reason}` })
}

/** Writes JSON with -0, which JSON.stringify writes as 0. */
const stringify = (value: Json): string => {
  if (typeof value === 'number') return Object.is(value, -0) ? '-0' : String(JSON.stringify(value))
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(stringify).join(',')}]`
  return `{${Object.entries(value)
    .map(([key, item]) => `${JSON.stringify(key)}:${stringify(item)}`)
    .join(',')}}`
}

const elementAt = (
  node: NodeSchema,
  elements: ReadonlyMap<string, readonly Json[]>,
  place: { readonly index: number; readonly path: readonly string[] },
): Json => {
  const { index, path } = place
  return Object.fromEntries(
    node.entries.flatMap(([name, entry]): readonly (readonly [string, Json])[] => {
      const here = [...path, name]
      if (entry.kind === 'meta') return []
      if (entry.kind === 'node') return [[name, elementAt(entry, elements, { index, path: here })]]
      return [[name, elements.get(JSON.stringify(here))![index]!]]
    }),
  )
}

/**
 * Encodes a batch as lines. `decodeTrajectories` reads them back equal in every bit. Texts of
 * several batches may be joined.
 *
 * Errors   throws TensorDictError, listing every leaf and value that cannot be written (functions,
 *          objects of unknown classes, complex tensors), and for a TensorDict without a batch axis.
 * Effects  reads the tensors, which computes them.
 */
export const encodeTrajectories = (td: TensorDict): string => {
  const operation = 'encodeTrajectories'
  const schema = schemaOf(td, operation)
  const leaves = new Map(leafEntries(td).map(([path, leaf]) => [JSON.stringify(path), leaf]))
  const found = schemaLeaves(schema).map((place) => {
    const key = JSON.stringify(place.path)
    const { elements, problems } = flatElements(leaves.get(key)!, place)
    return { key, problems, elements: elements.map((flat) => elementJson(flat, place)) }
  })
  const problems = found.flatMap((each) => each.problems)
  if (problems.length > 0) throw new TensorDictError(operation, [], { problems })
  const elements = new Map(found.map(({ key, elements }) => [key, elements]))
  const lines = Array.from({ length: td.batchShape[0]! }, (_, index) =>
    stringify(elementAt(schema, elements, { index, path: [] })),
  )
  return [stringify({ _schema: headerOf(schema) }), ...lines].map((line) => `${line}\n`).join('')
}

/** The state of reading a batch: its elements so far, leaf by leaf. */
interface OpenBatch {
  readonly schema: NodeSchema
  readonly leaves: readonly { readonly place: SchemaLeaf; readonly flat: unknown[] }[]
  readonly size: number
  readonly line: number
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const openBatch = (line: number, json: unknown): E.Either<TrajectoryFailure, OpenBatch> => {
  if (!isRecord(json) || !Object.hasOwn(json, '_schema')) return fail(line, 'expected a header, { "_schema": ... }')
  const schema = parseTrajectoryHeader(json._schema)
  if (E.isLeft(schema)) return fail(line, schema.left.reason)
  return E.right({
    schema: schema.right,
    leaves: schemaLeaves(schema.right).map((place) => ({ place, flat: [] })),
    size: 0,
    line,
  })
}

/** Returns the paths in an element that the header does not have. */
const unknownNames = (node: NodeSchema, json: unknown, path: readonly string[]): readonly (readonly string[])[] => {
  if (!isRecord(json)) return []
  const known = new Map(node.entries)
  return Object.entries(json).flatMap(([name, item]) => {
    const entry = known.get(name)
    if (entry === undefined || entry.kind === 'meta') return [[...path, name]]
    return entry.kind === 'node' ? unknownNames(entry, item, [...path, name]) : []
  })
}

/** Returns the value under nested keys, or undefined if a key is missing. */
const valueAt = (json: unknown, path: readonly string[]): unknown =>
  path.reduce<unknown>((value, key) => (isRecord(value) && Object.hasOwn(value, key) ? value[key] : undefined), json)

const addElement = (open: OpenBatch, line: number, json: unknown): E.Either<TrajectoryFailure, OpenBatch> => {
  if (!isRecord(json)) return fail(line, 'expected an element: a record')
  const [unknown] = unknownNames(open.schema, json, [])
  if (unknown !== undefined) return fail(line, 'the header has no such entry', unknown)
  for (const { place, flat } of open.leaves) {
    const value = valueAt(json, place.path)
    if (value === undefined) return fail(line, 'missing', place.path)
    const parsed = parseElement(value, place)
    if (E.isLeft(parsed)) return fail(line, parsed.left, place.path)
    for (const item of parsed.right) flat.push(item)
  }
  return E.right({ ...open, size: open.size + 1 })
}

const closeBatch = ({ schema, leaves, size, line }: OpenBatch): E.Either<TrajectoryFailure, TensorDict> => {
  const made = new Map(leaves.map(({ place, flat }) => [JSON.stringify(place.path), { place, flat }]))
  const td = scope(() =>
    buildTensorDict(schema, {
      size,
      leafAt: (path) => {
        const { place, flat } = made.get(JSON.stringify(path))! // the leaves are those of the schema
        return leafOf(flat, place, size)
      },
    }),
  )
  return E.isRight(td) ? td : fail(line, td.left.reason)
}

const isFull = ({ schema, size }: OpenBatch): boolean => size === schema.batchShape[0]

/** Creates the failure of a file that ends too early. */
const tornFailure = (open: OpenBatch | undefined, line: number, reason: string): TrajectoryFailure => {
  const what =
    open === undefined
      ? 'a header is cut off'
      : `the batch that begins at line ${open.line} has ${open.size} of its ${open.schema.batchShape[0]} elements`
  return { _tag: 'TrajectoryFailure', kind: 'torn', line, path: [], reason: `line ${line}: ${reason}: ${what}` }
}

/** A line of a file: its JSON, or the reason why it is not JSON. */
type TrajectoryLine = E.Either<
  { readonly line: number; readonly reason: string },
  { readonly line: number; readonly json: unknown }
>

/**
 * Reads one more line. Returns the next state, and a batch if the line completes one. Creates
 * tensors that belong to the enclosing scope.
 */
const step = (
  open: OpenBatch | undefined,
  line: TrajectoryLine,
): E.Either<TrajectoryFailure, { readonly open: OpenBatch | undefined; readonly batch?: TensorDict }> => {
  if (E.isLeft(line)) return fail(line.left.line, line.left.reason)
  const next =
    open === undefined
      ? openBatch(line.right.line, line.right.json)
      : addElement(open, line.right.line, line.right.json)
  if (E.isLeft(next)) return next
  if (!isFull(next.right)) return E.right({ open: next.right })
  const batch = closeBatch(next.right)
  return E.isLeft(batch) ? batch : E.right({ open: undefined, batch: batch.right })
}

const textLines = (text: string): readonly TrajectoryLine[] =>
  text
    .replace(/^\uFEFF/, '')
    .split('\n')
    .flatMap((each, i): readonly TrajectoryLine[] => {
      if (each.trim() === '') return []
      const line = i + 1
      return [
        E.bimap(
          (reason: string) => ({ line, reason }),
          (json: unknown) => ({ line, json }),
        )(parseJson(each)),
      ]
    })

/** The contents of a text of trajectories. */
export interface SalvagedTrajectories {
  readonly batches: readonly TensorDict[]
  /** The position of the truncation, if the text is truncated. */
  readonly torn?: TrajectoryFailure
  /**
   * The complete elements of the truncated batch, as a smaller batch. Missing if its header is
   * truncated.
   */
  readonly rest?: TensorDict
}

/**
 * Reads the complete batches of a text, and the complete elements of the last one if the text is
 * truncated, as after a crash.
 *
 * Errors   `Left(TrajectoryFailure)`, with line and path, for any error before the last line.
 * Effects  creates tensors that belong to the enclosing scope.
 */
export const salvageTrajectories = (text: string): E.Either<TrajectoryFailure, SalvagedTrajectories> =>
  scope((): E.Either<TrajectoryFailure, SalvagedTrajectories> => {
    const batches: TensorDict[] = []
    const lines = textLines(text)
    let open: OpenBatch | undefined
    for (const [i, line] of lines.entries()) {
      if (E.isLeft(line) && i === lines.length - 1) return endOf(batches, open, line.left)
      const next = step(open, line)
      if (E.isLeft(next)) return next
      open = next.right.open
      if (next.right.batch !== undefined) batches.push(next.right.batch)
    }
    return open === undefined
      ? E.right({ batches })
      : endOf(batches, open, { line: lines.length, reason: 'the text ends' })
  })

const endOf = (
  batches: readonly TensorDict[],
  open: OpenBatch | undefined,
  { line, reason }: { readonly line: number; readonly reason: string },
): E.Either<TrajectoryFailure, SalvagedTrajectories> => {
  const torn = tornFailure(open, line, reason)
  if (open === undefined) return E.right({ batches, torn })
  const rest = closeBatch(open)
  return E.isLeft(rest) ? rest : E.right({ batches, torn, rest: rest.right })
}

/**
 * Reads the batches of a text from `encodeTrajectories`, or of several such texts joined.
 *
 * Errors   `Left(TrajectoryFailure)`, with line and path: `torn` if only the end is missing
 *          (`salvageTrajectories` reads the rest), `damaged` for anything else. Never throws.
 * Effects  creates tensors that belong to the enclosing scope.
 * Source   law: `decodeTrajectories(encodeTrajectories(td))` is `[td]`, for every TensorDict with a
 *          batch axis.
 */
export const decodeTrajectories = (text: string): E.Either<TrajectoryFailure, readonly TensorDict[]> =>
  scope((): E.Either<TrajectoryFailure, readonly TensorDict[]> => {
    const found = salvageTrajectories(text)
    if (E.isLeft(found)) return found
    return found.right.torn === undefined ? E.right(found.right.batches) : E.left(found.right.torn)
  })

const unknownRow = z.unknown()

/**
 * Reads the batches of a file of any size, one after the other. A torn end is the last `Left`,
 * after all complete batches.
 *
 * Errors   yields `Left(TrajectoryFailure)` or `Left(FileFailure)` and ends.
 * Effects  reads the source. Every batch is `Owned`: release it.
 */
export async function* readTrajectories(
  source: ByteSource,
): AsyncGenerator<E.Either<TrajectoryFailure | FileFailure, Owned<TensorDict>>> {
  let open: OpenBatch | undefined
  let held: RowFailure | undefined // a line that is not JSON: torn if it is the last one
  let last = 0
  for await (const row of readJsonLines(source, { schema: unknownRow })) {
    if (held !== undefined) {
      yield fail(held.row, held.reason)
      return
    }
    if (E.isLeft(row)) {
      if (row.left._tag === 'FileFailure') {
        yield E.left(row.left)
        return
      }
      held = row.left
      continue
    }
    last = row.right.line
    const next = scope(() => {
      const made = step(open, E.right({ line: last, json: row.right.value }))
      return E.isLeft(made)
        ? made
        : E.right({ open: made.right.open, owned: made.right.batch && own(made.right.batch) })
    })
    if (E.isLeft(next)) {
      yield next
      return
    }
    open = next.right.open
    if (next.right.owned !== undefined) yield E.right(next.right.owned)
  }
  if (held !== undefined) yield E.left(tornFailure(open, held.row, held.reason))
  else if (open !== undefined) yield E.left(tornFailure(open, last, 'the file ends'))
}
