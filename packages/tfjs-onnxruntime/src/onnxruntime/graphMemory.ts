/** Memory of a graph's values during a run, and the decision to keep it between runs. */
import { type Graph, sizeOf, type Value } from './graph.js'
import type { OnnxType } from './library.js'

/**
 * Memory of a graph's values between runs. `automatic` keeps it for the next run if that is faster;
 * `returned` frees each value as soon as no operation needs it.
 */
export type GraphMemory = 'automatic' | 'returned'

const ELEMENT_BYTES: Readonly<Record<OnnxType, number>> = { float32: 4, float64: 8, int32: 4, int64: 8, bool: 1 }

const bytesOf = ({ shape, type }: Pick<Value, 'shape' | 'type'>): number => sizeOf(shape) * ELEMENT_BYTES[type]

/** Bytes of the values that a run computes. */
export interface RunBytes {
  /**
   * Peak bytes if operations run in order and none in place; about the most that onnxruntime needs.
   */
  readonly peak: number
  /** Bytes of the largest value. */
  readonly largest: number
}

/** Measures a graph with fixed shapes. Cost: linear in operations and their inputs. */
export const runBytes = ({ operations, roots }: Pick<Graph, 'operations' | 'roots'>): RunBytes => {
  const lastUse = new Map<Value, number>()
  for (const [index, { inputs, outputs }] of operations.entries()) {
    for (const output of outputs) lastUse.set(output, index)
    for (const input of inputs) if (input !== null && lastUse.has(input)) lastUse.set(input, index)
  }
  for (const root of roots) lastUse.set(root, operations.length)
  const freedAfter = new Map<number, number>()
  for (const [value, index] of lastUse) freedAfter.set(index, (freedAfter.get(index) ?? 0) + bytesOf(value))
  let [alive, peak, largest] = [0, 0, 0]
  for (const [index, { outputs }] of operations.entries()) {
    for (const output of outputs) {
      alive += bytesOf(output)
      largest = Math.max(largest, bytesOf(output))
    }
    peak = Math.max(peak, alive)
    alive -= freedAfter.get(index) ?? 0
  }
  return { peak, largest }
}

/**
 * Peak below which a graph always keeps its memory, because small graphs mostly spend time
 * allocating.
 */
const LITTLE = 4 * 2 ** 20

/**
 * Largest value that the C library keeps in the heap shared by all graphs, so that freeing it has
 * no measurable cost. Larger values are mapped and cleared in every run, which makes a training
 * step about 13 % slower.
 */
const SHARED = 16 * 2 ** 20

/**
 * Memory of a session. `planned` and `kept` keep it between runs; `planned` also keeps one block
 * with the places of all values, beside the memory of the first run, so that a run does not search.
 */
export type MemoryMode = 'planned' | 'kept' | 'returned'

/** Bytes of a graph that keeps its memory. */
export const keptBytes = ({ peak }: RunBytes, mode: Exclude<MemoryMode, 'returned'>): number =>
  mode === 'planned' ? 2 * peak : peak

/** Chooses the memory of a session, if `room` more bytes may be kept. */
export const memoryMode = (bytes: RunBytes, room: number): MemoryMode => {
  if (bytes.peak <= LITTLE) return 'planned'
  return bytes.largest > SHARED && keptBytes(bytes, 'kept') <= room ? 'kept' : 'returned'
}
