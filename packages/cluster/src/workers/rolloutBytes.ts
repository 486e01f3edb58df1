/** Conversions between rollouts and bytes, for the transfer from worker to trainer. */
import type { FormatFailure } from '@tandem-rl/base'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import type { CollectedBatch, TokenAction } from 'tandem-rl'
import type { PlayedRollout } from 'tandem-rl/async'
import { decodeTensorDict, encodeTensorDict } from 'tandem-rl/files'
import {
  type Data,
  find,
  isTensorDict,
  type Meta,
  meta,
  type Ragged,
  raggedLength,
  raggedRow,
  TensorDict,
} from 'tandem-rl/tensordict'

/**
 * Encodes a rollout as bytes. `decodeRollout` restores it, equal in every bit.
 *
 * Errors   throws TensorDictError that lists all values that cannot be encoded.
 * Effects  reads the tensors.
 */
export const encodeRollout = <O, P = TokenAction>({ rows, turns, isCut }: PlayedRollout<O, P>): Uint8Array =>
  encodeTensorDict(TensorDict({ rows: rows.value as TensorDict, turns: meta(turns), isCut: meta(isCut) }, []))

const metaOf = (td: TensorDict, name: string): unknown => {
  const entry = find(td, [name])
  return entry !== undefined && '_tag' in entry && entry._tag === 'Meta' ? (entry as Meta<unknown>).value : undefined
}

/**
 * Decodes the bytes of `encodeRollout`.
 *
 * Errors   `Left(FormatFailure)` for damaged bytes, or bytes of something else. Never throws.
 * Effects  makes tensors, which the result owns.
 */
export const decodeRollout = <O, P = TokenAction>(bytes: Uint8Array): E.Either<FormatFailure, PlayedRollout<O, P>> =>
  scope(() =>
    pipe(
      decodeTensorDict(bytes),
      E.chain((td): E.Either<FormatFailure, PlayedRollout<O, P>> => {
        const [rows, turns, isCut] = [find(td, ['rows']), metaOf(td, 'turns'), metaOf(td, 'isCut')]
        const isRollout =
          isTensorDict(rows) &&
          Number(rows.batchShape[0]) >= 1 &&
          typeof turns === 'number' &&
          typeof isCut === 'boolean'
        return isRollout
          ? E.right({ rows: own(rows as CollectedBatch<O, P>), turns, isCut }) // as it was written
          : E.left({ _tag: 'FormatFailure', format: 'tandem rollout', reason: 'the TensorDict is not a rollout' })
      }),
    ),
  )

/** Returns the oldest weight version that sampled a token of a rollout. */
export const rolloutVersion = <O, P = TokenAction>(rows: CollectedBatch<O, P>): number => {
  const plain = rows as TensorDict
  const tokens = find(plain, ['versions', 'response']) as Ragged<'int32'> | undefined // if tokens are stamped
  const found = find(plain, ['policyVersion']) as Data<number> | undefined // by its name
  const each = found?.items.toArray() ?? [0] // policies without versions have constant weights
  const sampled =
    tokens === undefined ? [] : Array.from({ length: raggedLength(tokens) }, (_, i) => [...raggedRow(tokens, i)]).flat()
  return [...each, ...sampled.filter((version) => version >= 0)].reduce((a, b) => Math.min(a, b))
}
