/** TensorBoard event files: records with checksums, each a message of TensorFlow's `Event`. */
import { crc32c, joinBytes, type MessageWriter, protobufWriter } from '@tandem-rl/base'

/**
 * Masks a checksum, for bytes that contain checksums themselves: rotated by 15 bits, plus a
 * constant.
 */
const masked = (checksum: number): number => (((checksum >>> 15) | (checksum << 17)) + 0xa282ead8) >>> 0

/**
 * Encodes a record of a TFRecord file: length (8 bytes), its checksum, the bytes, their checksum;
 * little-endian.
 *
 * Source   TensorFlow, `core/lib/io/record_writer.h`: the format, and the mask of the CRC-32C.
 *
 * @example
 * tfRecord(Uint8Array.of(7)).length // 17
 */
export const tfRecord = (bytes: Uint8Array): Uint8Array => {
  const head = new Uint8Array(12)
  const view = new DataView(head.buffer)
  view.setBigUint64(0, BigInt(bytes.length), true)
  view.setUint32(8, masked(crc32c(head.subarray(0, 8))), true)
  const foot = new Uint8Array(4)
  new DataView(foot.buffer).setUint32(0, masked(crc32c(bytes)), true)
  return joinBytes([head, bytes, foot])
}

/** An event of an event file at one time. `seconds` since 1970; `step` an integer of at least 0. */
export type BoardEvent = { readonly seconds: number; readonly step: number } & (
  | { readonly what: 'version' }
  /** Invalidates events of this and later steps in earlier files of the folder. */
  | { readonly what: 'restart' }
  | { readonly what: 'scalars'; readonly values: Readonly<Record<string, number>> }
  | { readonly what: 'texts'; readonly values: Readonly<Record<string, string>> }
)

const FLOAT = 1
const STRING = 7

/**
 * Writes a value of a summary: a tensor without axes, with the TensorBoard plugin that shows it.
 */
const summaryValue = (
  summary: MessageWriter,
  [tag, plugin]: readonly [string, string],
  tensor: (writer: MessageWriter) => void,
): void =>
  summary.message(1, (value) => {
    value.text(1, tag)
    value.message(8, tensor)
    value.message(9, (metadata) => metadata.message(1, (data) => data.text(1, plugin)))
  })

/** Writes the type of a tensor, and a shape without axes. */
const typed = (tensor: MessageWriter, type: number): void => {
  tensor.integer(1, type)
  tensor.message(2, () => {})
}

const scalar = (summary: MessageWriter, [tag, value]: readonly [string, number]): void =>
  summaryValue(summary, [tag, 'scalars'], (tensor) => {
    typed(tensor, FLOAT)
    tensor.bytes(5, new Uint8Array(Float32Array.of(value).buffer))
  })

const text = (summary: MessageWriter, [tag, value]: readonly [string, string]): void =>
  summaryValue(summary, [tag, 'text'], (tensor) => {
    typed(tensor, STRING)
    tensor.text(8, value)
  })

const writeContents = (writer: MessageWriter, event: BoardEvent): void => {
  switch (event.what) {
    case 'version':
      writer.text(3, 'brain.Event:2')
      break
    case 'restart':
      writer.message(7, (log) => log.integer(1, 1))
      break
    case 'scalars':
      writer.message(5, (summary) => {
        for (const each of Object.entries(event.values)) scalar(summary, each)
      })
      break
    case 'texts':
      writer.message(5, (summary) => {
        for (const each of Object.entries(event.values)) text(summary, each)
      })
  }
}

/**
 * Encodes an event as a record of a TensorBoard event file. A file begins with a `version`.
 *
 * Scalars are written in single precision. Texts are shown as Markdown.
 *
 * Errors   throws RangeError for a step that is not an integer of at least 0.
 * Source   TensorFlow, `core/util/event.proto` and `core/framework/summary.proto`; TensorBoard's
 *          `scalar` and `text` plugins.
 *
 * @example
 * encodeBoardEvent({ what: 'scalars', seconds: 1, step: 2, values: { loss: 0.5 } }).length // 62
 */
export const encodeBoardEvent = (event: BoardEvent): Uint8Array => {
  const { seconds, step } = event
  if (!Number.isSafeInteger(step) || step < 0)
    throw new RangeError(`encodeBoardEvent: step: expected an integer of at least 0, got ${step}`)
  const writer = protobufWriter()
  // as in proto3, a field that is 0 is not written
  if (seconds !== 0) writer.double(1, seconds)
  if (step !== 0) writer.integer(2, step)
  writeContents(writer, event)
  return tfRecord(writer.finish())
}
