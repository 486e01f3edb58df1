/** Arrays that grow and shrink in place, without a copy and without garbage. */

/** Zeros in memory of their own. Mutable. */
export interface GrowingArray {
  /** The numbers. Views are valid until the next `resize`. */
  readonly numbers: () => Float32Array
  /** Bytes of memory held. */
  readonly bytes: () => number
  /** Sets the length. Kept numbers stay where they are, new ones are zero. */
  readonly resize: (length: number) => void
}

/** A buffer whose length may change, as in ES2024. Node 20 has them, its type library does not. */
interface ResizableBuffer extends ArrayBuffer {
  readonly maxByteLength: number
  readonly resize: (bytes: number) => void
}

// The cast adds the second parameter of ES2024. Engines without it ignore it.
const Buffers = ArrayBuffer as unknown as new (
  bytes: number,
  options: { readonly maxByteLength: number },
) => ArrayBuffer | ResizableBuffer

/** Ratio of reserved addresses to the bytes needed first. Only used bytes take memory. */
const RESERVED = 8

/** Smallest and largest number of bytes whose addresses are reserved. */
const [LEAST, MOST] = [2 ** 20, 2 ** 30]

/** Growth of a buffer that is copied, which keeps copying linear in the final size. */
const COPIED = 1.5

const isResizable = (buffer: ArrayBuffer | ResizableBuffer): buffer is ResizableBuffer =>
  'resize' in buffer && 'resizable' in buffer && buffer.resizable === true

/** Makes a buffer of `bytes` bytes that can grow, where the engine allows it. */
const makeBuffer = (bytes: number): ArrayBuffer | ResizableBuffer => {
  const maxByteLength = Math.max(bytes, Math.min(MOST, Math.max(LEAST, RESERVED * bytes)))
  try {
    return new Buffers(bytes, { maxByteLength })
  } catch {
    return new ArrayBuffer(bytes) // the addresses are not available
  }
}

/**
 * Makes an empty array.
 *
 * Resizing usually takes no copy: addresses are reserved ahead, and memory is taken and returned
 * page by page. Where that is impossible, the array is copied to one that is half as large again.
 *
 * Effects  a mutable value. `resize(0)` returns its memory at once, without the garbage collector.
 *
 * @example
 * const array = growingArray()
 * array.resize(2)
 * array.numbers().length // 2
 */
export const growingArray = (): GrowingArray => {
  let buffer: ArrayBuffer | ResizableBuffer = new ArrayBuffer(0)
  let numbers = new Float32Array(buffer)

  const moveTo = (target: ArrayBuffer, kept: number): void => {
    new Float32Array(target, 0, kept).set(numbers.subarray(0, kept))
    if (isResizable(buffer)) buffer.resize(0)
    buffer = target
  }

  const resize: GrowingArray['resize'] = (length) => {
    const bytes = length * Float32Array.BYTES_PER_ELEMENT
    if (isResizable(buffer) && bytes <= buffer.maxByteLength) buffer.resize(bytes)
    else if (bytes === 0) buffer = new ArrayBuffer(0)
    else if (bytes <= buffer.byteLength) numbers.fill(0, length)
    else {
      const grows = !isResizable(buffer) && buffer.byteLength > 0
      const wanted = grows ? Math.max(bytes, COPIED * buffer.byteLength) : bytes
      moveTo(makeBuffer(4 * Math.ceil(wanted / 4)), numbers.length)
    }
    numbers = new Float32Array(buffer, 0, length)
  }

  return { numbers: () => numbers, bytes: () => buffer.byteLength, resize }
}
