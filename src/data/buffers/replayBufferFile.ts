/** Files of replay buffers: the rows and the state of the samplers. */
import { checkOptions, type FormatFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { decodeTensorDict } from '../codecs/tensorDictFileRead.js'
import { encodeTensorDict, type TensorDictFileOptions } from '../codecs/tensorDictFileWrite.js'
import { DECODE_REPLAY_BUFFER_OPTIONS, ENCODE_REPLAY_BUFFER_OPTIONS } from '../optionKinds.js'
import { concat } from '../tensorDict/joining.js'
import { meta } from '../tensorDict/leaf.js'
import { splitEach } from '../tensorDict/splitting.js'
import { find, isTensorDict, TensorDict } from '../tensorDict/tensorDict.js'
import type { ReplayBuffer, ReplayBufferState } from './replayBuffer.js'

const FORMAT = 'tandem replay buffer 1'

/**
 * Encodes a buffer as the bytes of a TensorDict file: `rows`, and `about` with the remaining state.
 *
 * Errors   throws what `encodeTensorDict` throws, and TensorDictError if rows differ in keys, kinds
 *          or shapes.
 * Effects  reads the tensors; those that it creates belong to the enclosing scope.
 */
export const encodeReplayBuffer = <S, P>(
  buffer: ReplayBuffer<P>,
  { rows, writes, written, sampler }: ReplayBufferState<S, P>,
  options: TensorDictFileOptions = {},
): Uint8Array => {
  checkOptions('encodeReplayBuffer', options, ENCODE_REPLAY_BUFFER_OPTIONS)
  const about = meta({ format: FORMAT, writes, written, sampler: buffer.sampler.plain(sampler) })
  return encodeTensorDict(TensorDict(rows.length === 0 ? { about } : { about, rows: concat(rows) }, []), options)
}

const isWrites = (value: unknown, written: number, size: number): value is readonly number[] =>
  Array.isArray(value) &&
  value.length === size &&
  new Set(value).size === size &&
  value.every((write) => Number.isSafeInteger(write) && write >= 0 && write < written)

/** Validates the contents of `about` against the number of rows. */
const checkedAbout = <P>(
  { capacity, sampler }: ReplayBuffer<P>,
  about: unknown,
  size: number,
): E.Either<string, Omit<ReplayBufferState<unknown, P>, 'rows'>> => {
  const fields: Readonly<Record<string, unknown>> = typeof about === 'object' && about !== null ? { ...about } : {}
  const { format, writes, written } = fields
  if (format !== FORMAT) return E.left(`expected the format '${FORMAT}', got ${String(format)}`)
  if (size > capacity) return E.left(`${size} rows, more than the capacity of ${capacity}`)
  if (typeof written !== 'number' || !Number.isSafeInteger(written) || !isWrites(writes, written, size))
    return E.left(`expected ${size} different numbers of writes below ${String(written)}`)
  return pipe(
    sampler.fromPlain(fields.sampler, size),
    E.bimap(
      (reason) => `sampler: ${reason}`,
      (state) => ({ writes, written, sampler: state }),
    ),
  )
}

/**
 * Reads a file of `encodeReplayBuffer` for a buffer of the same kind: the same rows in the same
 * slots, and the same samples for the same keys. `refine` restores the type of the rows.
 *
 * Errors   `Left(FormatFailure)` for bytes that `decodeTensorDict` refuses, for a file of another
 *          format, for more rows than the capacity, and for a state that is invalid for the
 *          sampler. Never throws.
 * Effects  creates tensors, for rows with tensors, that belong to the enclosing scope.
 */
export const decodeReplayBuffer = <P>(
  buffer: ReplayBuffer<P>,
  bytes: Uint8Array,
  options: TensorDictFileOptions = {},
): E.Either<FormatFailure, ReplayBufferState<unknown, P>> => {
  checkOptions('decodeReplayBuffer', options, DECODE_REPLAY_BUFFER_OPTIONS)
  return pipe(
    decodeTensorDict(bytes, options),
    E.chain((td) => {
      const node = find(td, 'rows')
      const about = find(td, 'about')
      const rows = isTensorDict(node) && node.batchShape.length === 1 ? splitEach(node) : []
      return pipe(
        checkedAbout(
          buffer,
          about !== undefined && '_tag' in about && about._tag === 'Meta' ? about.value : undefined,
          rows.length,
        ),
        E.bimap(
          (reason): FormatFailure => ({ _tag: 'FormatFailure', format: FORMAT, reason }),
          (known) => ({ ...known, rows }),
        ),
      )
    }),
  )
}
