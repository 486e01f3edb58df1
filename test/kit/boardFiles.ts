/**
 * A reader of TensorBoard's event files, as far as they are written here: what TensorBoard shows of
 * them.
 */

type Field = readonly [number: number, value: bigint | Buffer]

/** The fields of a message. Values of eight bytes are bytes, too. */
const fieldsOf = (bytes: Buffer): readonly Field[] => {
  const fields: Field[] = []
  let at = 0
  const varint = (): bigint => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++]!
      value |= BigInt(byte & 127) << shift
      if (byte < 128) return value
    }
  }
  const take = (length: number): Buffer => {
    at += length
    return bytes.subarray(at - length, at)
  }
  while (at < bytes.length) {
    const tag = Number(varint())
    const kind = tag & 7
    if (kind !== 0 && kind !== 1 && kind !== 2) throw new Error(`wire type ${kind}`)
    fields.push([tag >> 3, kind === 0 ? varint() : take(kind === 1 ? 8 : Number(varint()))])
  }
  return fields
}

const inner = (fields: readonly Field[], number: number): readonly Buffer[] =>
  fields.flatMap(([field, value]) => (field === number && typeof value !== 'bigint' ? [value] : []))

/** The records of a file, without one that was cut off. */
const recordsOf = (file: Buffer): readonly Buffer[] => {
  const records: Buffer[] = []
  for (let at = 0; at + 12 <= file.length; ) {
    const length = Number(file.readBigUInt64LE(at))
    if (at + 16 + length > file.length) break
    records.push(file.subarray(at + 12, at + 12 + length))
    at += 16 + length
  }
  return records
}

/** A scalar or a text at a step. */
export type BoardRow = readonly [step: number, tag: string, value: number | string]

const rowsOf = (step: number, summary: Buffer): readonly BoardRow[] =>
  inner(fieldsOf(summary), 1).map((value) => {
    const fields = fieldsOf(value)
    const tensor = fieldsOf(inner(fields, 8)[0]!)
    const [float] = inner(tensor, 5)
    return [step, inner(fields, 1)[0]!.toString(), float ? float.readFloatLE() : inner(tensor, 8)[0]!.toString()]
  })

/**
 * The steps that TensorBoard shows: a restart removes earlier records of its step and later ones.
 * Settings belong to sessions.
 */
export const boardSteps = (files: readonly (readonly [name: string, contents: Buffer])[]): readonly BoardRow[] => {
  let rows: readonly BoardRow[] = []
  for (const record of files.flatMap(([, contents]) => recordsOf(contents))) {
    const fields = fieldsOf(record)
    const step = Number(fields.find(([number]) => number === 2)?.[1] ?? 0)
    if (inner(fields, 7).length > 0) rows = rows.filter(([earlier]) => earlier < step)
    rows = [...rows, ...inner(fields, 5).flatMap((summary) => rowsOf(step, summary))]
  }
  return rows.filter(([, tag]) => tag !== 'settings')
}
