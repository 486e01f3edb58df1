/** The protobuf form of the Tinker protocol, package `tinker_public` of the Python SDK. */
import {
  FailureError,
  type FormatFailure,
  joinInts,
  type MessageWriter,
  type ProtobufField,
  protobufBytes,
  protobufDouble,
  protobufFields,
  protobufInteger,
  protobufIntegers,
  protobufText,
  protobufWork,
  protobufWriter,
} from '@tandem-rl/base'
import { type Either, tryCatch } from 'fp-ts/lib/Either.js'
import { TINKER_REQUEST_LIMITS as MOST } from './limits.js'
import type {
  Datum,
  ForwardBackwardOutput,
  ForwardBackwardRequest,
  LossConfig,
  SampledSequence,
  SampleResult,
  TopTokens,
  WireTensor,
} from './values.js'

/** The content type of protobuf bodies. */
export const PROTOBUF = 'application/x-protobuf'

/** The place of a token that a list of the most probable ones lacks. */
const NO_TOKEN = { id: 0, logProb: -99999 }

const [FLOAT32, INT64, INT32, BFLOAT16] = [1, 2, 3, 4]

const refuse = (reason: string): never => {
  const failure: FormatFailure = { _tag: 'FormatFailure', format: 'protobuf', reason }
  throw new FailureError(failure)
}

const decoded = <T>(read: () => T): Either<FormatFailure, T> =>
  tryCatch(read, (error): FormatFailure => {
    if (error instanceof FailureError && error.failure._tag === 'FormatFailure') return error.failure as FormatFailure // by its tag
    throw error
  })

const all = (fields: readonly ProtobufField[], field: number): readonly ProtobufField[] =>
  fields.filter((each) => each.field === field)

const last = (fields: readonly ProtobufField[], field: number): ProtobufField | undefined =>
  fields.findLast((each) => each.field === field)

const textAt = (fields: readonly ProtobufField[], field: number): string => {
  const found = last(fields, field)
  return found === undefined ? '' : protobufText(found)
}

const integerAt = (fields: readonly ProtobufField[], field: number): number => {
  const found = last(fields, field)
  return found === undefined ? 0 : protobufInteger(found)
}

const bytesAt = (fields: readonly ProtobufField[], field: number): Uint8Array => {
  const found = last(fields, field)
  return found === undefined ? new Uint8Array() : protobufBytes(found)
}

const messageAt = (fields: readonly ProtobufField[], field: number): readonly ProtobufField[] =>
  protobufFields(bytesAt(fields, field))

/** The entries of a map field. */
const mapAt = <T>(
  fields: readonly ProtobufField[],
  field: number,
  read: (value: ProtobufField | undefined) => T,
): Readonly<Record<string, T>> =>
  Object.fromEntries(
    all(fields, field).map((entry) => {
      const parts = protobufFields(protobufBytes(entry))
      return [textAt(parts, 1), read(last(parts, 2))]
    }),
  )

const view = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)

const whole = (bytes: Uint8Array, size: number): number => {
  if (bytes.length % size !== 0) refuse(`${bytes.length} bytes are not a whole number of ${size}-byte numbers`)
  return bytes.length / size
}

const floatsOf = (bytes: Uint8Array): Float32Array => {
  const from = view(bytes)
  return Float32Array.from({ length: whole(bytes, 4) }, (_, i) => from.getFloat32(4 * i, true))
}

const int32sOf = (bytes: Uint8Array): Int32Array => {
  const from = view(bytes)
  return Int32Array.from({ length: whole(bytes, 4) }, (_, i) => from.getInt32(4 * i, true))
}

const int64sOf = (bytes: Uint8Array): readonly number[] => {
  const from = view(bytes)
  return Array.from(
    { length: whole(bytes, 8) },
    (_, i) => 2 ** 32 * from.getInt32(8 * i + 4, true) + from.getUint32(8 * i, true),
  )
}

const bfloatsOf = (bytes: Uint8Array): Float32Array => {
  const from = view(bytes)
  const bits = Uint32Array.from({ length: whole(bytes, 2) }, (_, i) => from.getUint16(2 * i, true) << 16)
  return new Float32Array(bits.buffer)
}

const numbersOf = (bytes: Uint8Array, dtype: number): Pick<WireTensor, 'data' | 'dtype'> => {
  switch (dtype) {
    case FLOAT32:
      return { data: floatsOf(bytes), dtype: 'float32' }
    case BFLOAT16:
      return { data: bfloatsOf(bytes), dtype: 'float32' }
    case INT64:
      return { data: int64sOf(bytes), dtype: 'int64' }
    case INT32:
      return { data: int32sOf(bytes), dtype: 'int64' }
    default:
      return refuse(`there is no number type ${dtype}`)
  }
}

const floatBytes = (data: ArrayLike<number>): Uint8Array => {
  const to = new DataView(new ArrayBuffer(4 * data.length))
  for (let i = 0; i < data.length; i++) to.setFloat32(4 * i, data[i]!, true)
  return new Uint8Array(to.buffer)
}

const int32Bytes = (data: ArrayLike<number>): Uint8Array => {
  const to = new DataView(new ArrayBuffer(4 * data.length))
  for (let i = 0; i < data.length; i++) to.setInt32(4 * i, data[i]!, true)
  return new Uint8Array(to.buffer)
}

const int64Bytes = (data: ArrayLike<number>): Uint8Array => {
  const to = new DataView(new ArrayBuffer(8 * data.length))
  for (let i = 0; i < data.length; i++) to.setBigInt64(8 * i, BigInt(data[i]!), true)
  return new Uint8Array(to.buffer)
}

const numberBytes = ({ data, dtype }: Pick<WireTensor, 'data' | 'dtype'>): Uint8Array =>
  dtype === 'float32' ? floatBytes(data) : int64Bytes(data)

const typeNumber = ({ dtype }: Pick<WireTensor, 'dtype'>): number => (dtype === 'float32' ? FLOAT32! : INT64!)

const writeTensor =
  (tensor: WireTensor) =>
  (writer: MessageWriter): void => {
    writer.bytes(1, numberBytes(tensor))
    writer.integer(3, typeNumber(tensor))
    for (const size of tensor.shape) writer.integer(4, size)
  }

const readTensor = (field: ProtobufField | undefined): WireTensor => {
  const fields = field === undefined ? [] : protobufFields(protobufBytes(field))
  if (last(fields, 2) !== undefined) refuse('sparse tensors are not supported: send a dense tensor')
  const numbers = numbersOf(bytesAt(fields, 1), integerAt(fields, 3))
  const shape = protobufIntegers(all(fields, 4))
  return { ...numbers, shape: shape.length === 0 ? [numbers.data.length] : shape }
}

const readTokens = (chunks: readonly ProtobufField[]): Int32Array => {
  const parts = chunks.map((chunk) => {
    const fields = protobufFields(protobufBytes(chunk))
    if (last(fields, 1) === undefined) refuse('only chunks of the type encoded_text are supported')
    return int32sOf(bytesAt(messageAt(fields, 1), 1))
  })
  return joinInts(parts)
}

const readLossConfig = (fields: readonly ProtobufField[]): LossConfig => {
  const newer = mapAt(fields, 7, (value): number | string => {
    const parts = value === undefined ? [] : protobufFields(protobufBytes(value))
    const number = last(parts, 1)
    return number === undefined ? textAt(parts, 2) : protobufDouble(number)
  })
  const older = mapAt(fields, 5, (value) => (value === undefined ? 0 : protobufDouble(value)))
  return { ...older, ...newer }
}

/** The protobuf form of a request to compute a loss. */
export const encodeForwardBackward = (request: ForwardBackwardRequest): Uint8Array => {
  const writer = protobufWriter()
  writer.text(1, request.modelId)
  if (request.seqId !== null) writer.integer(2, request.seqId)
  for (const { tokens, inputs } of request.data)
    writer.message(3, (datum) => {
      datum.message(1, (chunk) => chunk.message(1, (text) => text.bytes(1, int32Bytes(tokens))))
      for (const [name, tensor] of Object.entries(inputs))
        datum.message(2, (entry) => {
          entry.text(1, name)
          entry.message(2, writeTensor(tensor))
        })
    })
  writer.text(4, request.lossFn)
  for (const [name, value] of Object.entries(request.lossConfig)) {
    if (typeof value === 'number')
      writer.message(5, (entry) => {
        entry.text(1, name)
        entry.double(2, value)
      })
    writer.message(7, (entry) => {
      entry.text(1, name)
      entry.message(2, (each) => (typeof value === 'number' ? each.double(1, value) : each.text(2, value)))
    })
  }
  if (request.mode === 'forward') writer.integer(6, 1)
  return writer.finish()
}

const readForwardBackward = (bytes: Uint8Array): ForwardBackwardRequest => {
  const fields = protobufFields(bytes)
  const seqId = integerAt(fields, 2)
  const data = all(fields, 3)
  if (data.length > MOST.data) refuse(`a request has at most ${MOST.data} data, got ${data.length}`)
  return {
    modelId: textAt(fields, 1),
    seqId: seqId === 0 ? null : seqId,
    data: data.map((each): Datum => {
      const parts = protobufFields(protobufBytes(each))
      return { tokens: readTokens(all(parts, 1)), inputs: mapAt(parts, 2, readTensor) }
    }),
    lossFn: textAt(fields, 4),
    lossConfig: readLossConfig(fields),
    mode: integerAt(fields, 6) === 1 ? 'forward' : 'backward',
  }
}

/**
 * Reads what `encodeForwardBackward` writes. Errors: `Left(FormatFailure)` for bytes that are not
 * such a message, and for more data or fields than the protocol's limits.
 */
export const decodeForwardBackward = (bytes: Uint8Array): Either<FormatFailure, ForwardBackwardRequest> =>
  decoded(() => protobufWork.withBudget(MOST.protobufFields, () => readForwardBackward(bytes)))

/** Tensors of one name for all data, one after another, with the byte at which each begins. */
const writeBatched =
  (tensors: readonly WireTensor[]) =>
  (writer: MessageWriter): void => {
    const parts = tensors.map(numberBytes)
    const offsets = [0]
    for (const { length } of parts) offsets.push(offsets.at(-1)! + length)
    const data = new Uint8Array(offsets.at(-1)!)
    for (const [i, part] of parts.entries()) data.set(part, offsets[i])
    writer.bytes(1, data)
    writer.bytes(2, int64Bytes(offsets))
    writer.integer(3, typeNumber(tensors[0]!))
    for (const size of tensors[0]!.shape.slice(1)) writer.integer(4, size)
  }

const readBatched = (field: ProtobufField | undefined): readonly WireTensor[] => {
  const fields = field === undefined ? [] : protobufFields(protobufBytes(field))
  const dtype = integerAt(fields, 3)
  const data = bytesAt(fields, 1)
  const offsets = int64sOf(bytesAt(fields, 2))
  const trailing = protobufIntegers(all(fields, 4))
  const width = trailing.reduce((product, size) => product * size, 1)
  return offsets.slice(1).map((end, i) => {
    const start = offsets[i]!
    if (start < 0 || end < start || end > data.length) refuse(`bytes ${start} to ${end} of ${data.length} do not exist`)
    const numbers = numbersOf(data.subarray(start, end), dtype)
    return { ...numbers, shape: [width === 0 ? 0 : numbers.data.length / width, ...trailing] }
  })
}

/** The protobuf form of the result of a loss. All data have tensors of the same names. */
export const encodeForwardBackwardOutput = ({ outputs, metrics }: ForwardBackwardOutput): Uint8Array => {
  const writer = protobufWriter()
  writer.text(1, 'ArrayRecord')
  writer.message(2, (record) => {
    record.text(1, 'ArrayRecord')
    for (const name of Object.keys(outputs[0] ?? {}))
      record.message(2, (entry) => {
        entry.text(1, name)
        entry.message(2, writeBatched(outputs.map((each) => each[name]!)))
      })
    record.integer(3, outputs.length)
  })
  for (const [name, value] of Object.entries(metrics))
    writer.message(3, (entry) => {
      entry.text(1, name)
      entry.double(2, value)
    })
  return writer.finish()
}

/**
 * Reads the result of a loss. Errors: `Left(FormatFailure)` for bytes that are not such a message.
 */
export const decodeForwardBackwardOutput = (bytes: Uint8Array): Either<FormatFailure, ForwardBackwardOutput> =>
  decoded(() => {
    const fields = protobufFields(bytes)
    const outputs = all(fields, 2).flatMap((each) => {
      const parts = protobufFields(protobufBytes(each))
      const columns = Object.entries(mapAt(parts, 2, readBatched))
      const count = columns.reduce((most, [, { length }]) => Math.max(most, length), integerAt(parts, 3))
      if (count > MOST.data) refuse(`a result has at most ${MOST.data} data, got ${count}`)
      return Array.from({ length: count }, (_, i) =>
        Object.fromEntries(
          columns.map(([name, tensors]) => [name, tensors[i] ?? refuse(`${name} of datum ${i} is missing`)]),
        ),
      )
    })
    return { outputs, metrics: mapAt(fields, 3, (value) => (value === undefined ? 0 : protobufDouble(value))) }
  })

const writeTop =
  (rows: readonly (TopTokens | null)[]) =>
  (writer: MessageWriter): void => {
    const width = rows.reduce((most, row) => Math.max(most, row?.length ?? 0), 0)
    const cells = rows.flatMap((row) =>
      Array.from({ length: width }, (_, i) => row?.[i] ?? [NO_TOKEN.id, NO_TOKEN.logProb]),
    )
    writer.bytes(1, int32Bytes(cells.map(([id]) => id!)))
    writer.bytes(2, floatBytes(cells.map(([, logProb]) => logProb!)))
    writer.integer(3, width)
    writer.integer(4, rows.length)
  }

const readTop = (fields: readonly ProtobufField[]): readonly (TopTokens | null)[] => {
  const [ids, logProbs] = [int32sOf(bytesAt(fields, 1)), floatsOf(bytesAt(fields, 2))]
  const [width, length] = [integerAt(fields, 3), integerAt(fields, 4)]
  if (length > MOST.numbers) refuse(`a prompt has at most ${MOST.numbers} places, got ${length}`)
  if (ids.length !== width * length || logProbs.length !== ids.length)
    refuse(`${length} places of ${width} tokens have ${ids.length} ids and ${logProbs.length} log-probabilities`)
  return Array.from({ length }, (_, row) => {
    const cells = Array.from({ length: width }, (_each, i): readonly [number, number] => [
      ids[row * width + i]!,
      logProbs[row * width + i]!,
    ]).filter(([id, logProb]) => id !== NO_TOKEN.id || logProb !== NO_TOKEN.logProb)
    return cells.length === 0 ? null : cells
  })
}

/** The protobuf form of the result of sampling. */
export const encodeSampleResult = (result: SampleResult): Uint8Array => {
  const writer = protobufWriter()
  for (const { stopReason, tokens, logProbs } of result.sequences)
    writer.message(1, (sequence) => {
      sequence.integer(1, stopReason === 'stop' ? 0 : 1)
      sequence.bytes(2, int32Bytes(tokens))
      if (logProbs !== null) sequence.bytes(3, floatBytes(logProbs))
    })
  const { promptLogProbs, topPromptLogProbs } = result
  if (promptLogProbs !== null) writer.bytes(2, floatBytes(promptLogProbs.map((x) => x ?? Number.NaN)))
  if (topPromptLogProbs !== null) writer.message(3, writeTop(topPromptLogProbs))
  writer.integer(4, result.cachedTokens)
  return writer.finish()
}

/**
 * Reads the result of sampling. Errors: `Left(FormatFailure)` for bytes that are not such a
 * message.
 */
export const decodeSampleResult = (bytes: Uint8Array): Either<FormatFailure, SampleResult> =>
  decoded(() => {
    const fields = protobufFields(bytes)
    const prompt = last(fields, 2)
    const top = last(fields, 3)
    return {
      sequences: all(fields, 1).map((each): SampledSequence => {
        const parts = protobufFields(protobufBytes(each))
        const logProbs = last(parts, 3)
        return {
          stopReason: integerAt(parts, 1) === 0 ? 'stop' : 'length',
          tokens: int32sOf(bytesAt(parts, 2)),
          logProbs: logProbs === undefined ? null : floatsOf(protobufBytes(logProbs)),
        }
      }),
      promptLogProbs:
        prompt === undefined ? null : Array.from(floatsOf(protobufBytes(prompt)), (x) => (Number.isNaN(x) ? null : x)),
      topPromptLogProbs: top === undefined ? null : readTop(protobufFields(protobufBytes(top))),
      cachedTokens: integerAt(fields, 4),
    }
  })
