/** Arrays of freed tensors, into which later runs write results of the same size. */
import { sizeOf, type Value } from './graph.js'
import type { OnnxArray, OnnxRuntime, OnnxTensor } from './library.js'

/** Elements below which an array is cheaper to allocate than to keep. */
const LARGE_ELEMENTS = 2 ** 16

/** Elements from which a result has a new array where none waits, at the cost of a copy more. */
const NEW_ELEMENTS = 2 ** 18

/** Bytes of copies after which they are freed. */
const COPIED_BYTES = 64 * 2 ** 20

/** Makes an array; `null` without memory for it, which onnxruntime reports with the operation. */
const newArray = (size: number): Float32Array | null => {
  try {
    return new Float32Array(size)
  } catch {
    return null
  }
}

/** Arrays that wait for a result of their size. */
export interface ResultArrays {
  /** Takes an array that nothing else uses. */
  readonly give: (array: OnnxArray) => void
  /**
   * Returns a function that returns the outputs of a run by name: for large `roots` a tensor over a
   * waiting array, or a new one, and `null` for others, which the library allocates.
   */
  readonly fetches: (
    roots: readonly Value[],
    names: readonly string[],
  ) => () => Readonly<Record<string, OnnxTensor | null>>
  readonly clear: () => void
}

/**
 * Makes an empty store of arrays.
 *
 * Node frees the memory of a result when the garbage collector finds its array, which large arrays
 * do not hurry: a training step that replaces weights would have several sets of them. Results in
 * the arena of a session would make it grow, by powers of two. onnxruntime-node writes a result
 * into the array that it is given, and returns a copy of it nevertheless, which is garbage at once.
 */
export const resultArrays = (ort: Pick<OnnxRuntime, 'tensor' | 'resultArrays' | 'collectYoung'>): ResultArrays => {
  const waiting = new Map<number, Float32Array[]>()
  let copiedBytes = 0
  const take = ({ shape }: Value): OnnxTensor | null => {
    const size = sizeOf(shape)
    const array = waiting.get(size)?.pop() ?? (size < NEW_ELEMENTS ? null : newArray(size))
    copiedBytes += array === null ? 0 : 4 * size
    return array && ort.tensor('float32', array, shape)
  }
  const freeCopies = (): void => {
    if (copiedBytes < COPIED_BYTES) return
    copiedBytes = 0
    ort.collectYoung?.()
  }
  return {
    give: (array) => {
      if (ort.resultArrays === 'new' || !(array instanceof Float32Array) || array.length < LARGE_ELEMENTS) return
      const others = waiting.get(array.length)
      if (others === undefined) waiting.set(array.length, [array])
      else others.push(array)
    },
    fetches: (roots, names) => {
      const fresh = Object.fromEntries(names.map((name) => [name, null]))
      const large = roots.flatMap((root, i) =>
        root.type === 'float32' && sizeOf(root.shape) >= LARGE_ELEMENTS ? [[names[i]!, root] as const] : [],
      )
      if (ort.resultArrays === 'new' || large.length === 0) return () => fresh
      return () => {
        freeCopies() // of earlier runs
        return { ...fresh, ...Object.fromEntries(large.map(([name, root]) => [name, take(root)])) }
      }
    },
    clear: () => waiting.clear(),
  }
}
