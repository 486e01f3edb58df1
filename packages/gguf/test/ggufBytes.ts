/** Writes GGUF files, also malformed ones. */

type Scalar = number | bigint | boolean | string

export type GgufTestValue = readonly [
  key: string,
  type: number,
  value: Scalar | readonly [of: number, items: readonly Scalar[]],
]

export interface GgufTestTensor {
  readonly name: string
  readonly sizes: readonly number[]
  readonly type: number
  readonly bytes: Uint8Array
  /** Default: the first free place. */
  readonly offset?: number
}

const encoder = new TextEncoder()

const number = (bytes: number, write: (view: DataView) => void): Uint8Array => {
  const result = new Uint8Array(bytes)
  write(new DataView(result.buffer))
  return result
}

const uint32 = (value: number): Uint8Array => number(4, (view) => view.setUint32(0, value, true))
const uint64 = (value: number | bigint): Uint8Array => number(8, (view) => view.setBigUint64(0, BigInt(value), true))

const text = (value: string): readonly Uint8Array[] => {
  const bytes = encoder.encode(value)
  return [uint64(bytes.length), bytes]
}

const scalar = (type: number, value: Scalar): readonly Uint8Array[] => {
  const n = Number(value)
  if (type === 8) return text(String(value))
  if (type === 6) return [number(4, (view) => view.setFloat32(0, n, true))]
  if (type === 12) return [number(8, (view) => view.setFloat64(0, n, true))]
  if (type === 10 || type === 11)
    return [number(8, (view) => view.setBigInt64(0, BigInt.asIntN(64, BigInt(value)), true))]
  const size = [1, 1, 2, 2, 4, 4, 4, 1][type] ?? 4
  return [number(8, (view) => view.setInt32(0, n, true)).slice(0, size)]
}

const value = ([key, type, given]: GgufTestValue): readonly Uint8Array[] => [
  ...text(key),
  uint32(type),
  ...(Array.isArray(given)
    ? [uint32(given[0]), uint64(given[1].length), ...given[1].flatMap((item: Scalar) => scalar(given[0], item))]
    : scalar(type, given as Scalar)), // not a list
]

const joined = (parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> => new Uint8Array(Buffer.concat(parts))

/** Returns a file with these values and tensors, with data at multiples of 32. */
export const ggufBytes = ({
  version = 3,
  values = [],
  tensors = [],
}: {
  readonly version?: number
  readonly values?: readonly GgufTestValue[]
  readonly tensors?: readonly GgufTestTensor[]
}): Uint8Array<ArrayBuffer> => {
  let free = 0
  const placed = tensors.map((tensor) => {
    const at = tensor.offset ?? free
    free = Math.ceil((at + tensor.bytes.length) / 32) * 32
    return { ...tensor, at }
  })
  const header = joined([
    encoder.encode('GGUF'),
    uint32(version),
    uint64(tensors.length),
    uint64(values.length),
    ...values.flatMap(value),
    ...placed.flatMap(({ name, sizes, type, at }) => [
      ...text(name),
      uint32(sizes.length),
      ...sizes.map(uint64),
      uint32(type),
      uint64(at),
    ]),
  ])
  const start = Math.ceil(header.length / 32) * 32
  const file = new Uint8Array(start + free)
  file.set(header)
  for (const { at, bytes } of placed) file.set(bytes, start + at)
  return file
}
