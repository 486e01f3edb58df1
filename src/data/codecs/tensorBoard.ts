/** Files of events that TensorBoard reads: records with checksums, each a message of TensorFlow's `Event`. */
import { joinBytes } from '../../core/joinBytes.js'
import { crc32c } from './crc32.js'
import { protoBytes, protoDouble, protoInteger } from './protobuf.js'

/** A checksum of bytes that hold checksums themselves: turned by 15 bits, plus a constant. */
const masked = (checksum: number): number => (((checksum >>> 15) | (checksum << 17)) + 0xa282ead8) >>> 0

/**
 * A record of a TFRecord file: length (8 bytes), its checksum, the bytes, their checksum; little-endian.
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

/** What an event file tells at one moment. `seconds` since 1970; `step` an integer of at least 0. */
export type BoardEvent = { readonly seconds: number; readonly step: number } & (
  | { readonly what: 'version' }
  /** What earlier files of the folder tell of this step and later ones no longer counts. */
  | { readonly what: 'restart' }
  | { readonly what: 'scalars'; readonly values: Readonly<Record<string, number>> }
  | { readonly what: 'texts'; readonly values: Readonly<Record<string, string>> }
)

const FLOAT = 1
const STRING = 7

/** Metadata that says which of TensorBoard's plugins shows a value. */
const shownBy = (plugin: string): Uint8Array => protoBytes(9, [protoBytes(1, [protoBytes(1, plugin)])])

/** A value of a summary: a tensor without axes. */
const summaryValue = (tag: string, plugin: string, tensor: readonly Uint8Array[]): Uint8Array =>
  protoBytes(1, [protoBytes(1, tag), protoBytes(8, tensor), shownBy(plugin)])

const NO_AXES = protoBytes(2, [])

const scalar = (tag: string, value: number): Uint8Array =>
  summaryValue(tag, 'scalars', [
    protoInteger(1, FLOAT),
    NO_AXES,
    protoBytes(5, new Uint8Array(Float32Array.of(value).buffer)),
  ])

const text = (tag: string, value: string): Uint8Array =>
  summaryValue(tag, 'text', [protoInteger(1, STRING), NO_AXES, protoBytes(8, value)])

const contents = (event: BoardEvent): Uint8Array => {
  switch (event.what) {
    case 'version':
      return protoBytes(3, 'brain.Event:2')
    case 'restart':
      return protoBytes(7, [protoInteger(1, 1)])
    case 'scalars':
      return protoBytes(
        5,
        Object.entries(event.values).map(([tag, value]) => scalar(tag, value)),
      )
    case 'texts':
      return protoBytes(
        5,
        Object.entries(event.values).map(([tag, value]) => text(tag, value)),
      )
  }
}

/**
 * An event as a record of a TensorBoard event file. A file begins with a `version`.
 *
 * Scalars are written in single precision. Texts are shown as Markdown.
 *
 * Errors   throws RangeError for a step that is not an integer of at least 0.
 * Source   TensorFlow, `core/util/event.proto` and `core/framework/summary.proto`; TensorBoard's `scalar` and `text` plugins.
 *
 * @example
 * encodeBoardEvent({ what: 'scalars', seconds: 1, step: 2, values: { loss: 0.5 } }).length // 62
 */
export const encodeBoardEvent = (event: BoardEvent): Uint8Array =>
  tfRecord(joinBytes([protoDouble(1, event.seconds), protoInteger(2, event.step), contents(event)]))
