/** How much memory the values of a graph take while it runs, and what a graph does with that memory between runs. */
import type { OnnxType } from './binding.js'
import { type Graph, sizeOf, type Value } from './graph.js'

/**
 * Memory of a graph's values between runs. `automatic` keeps it for the next run where that is faster; `returned` gives every piece back
 * as soon as no operation needs it.
 */
export type GraphMemory = 'automatic' | 'returned'

const ELEMENT_BYTES: Readonly<Record<OnnxType, number>> = { float32: 4, int32: 4, int64: 8, bool: 1 }

const bytesOf = ({ shape, type }: Pick<Value, 'shape' | 'type'>): number => sizeOf(shape) * ELEMENT_BYTES[type]

/** Bytes of the values that a run computes. */
export interface RunBytes {
  /** The most that is alive at once, if operations run in their order and none writes in place: onnxruntime needs at most about that. */
  readonly peak: number
  /** Of the largest value. */
  readonly largest: number
}

/** Measures a graph of fixed shapes. Cost: linear in operations and their inputs. */
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

/** Below this peak a graph always keeps its memory: it is little, and most of such a graph's time is spent on allocations. */
const LITTLE = 4 * 2 ** 20

/**
 * Up to this size of a value the C library keeps what is freed in one heap that all graphs share, and returning it costs nothing that can be
 * measured beside the noise. Larger values are mapped and cleared anew in every run, which makes a training step about 13 % slower.
 */
const SHARED = 16 * 2 ** 20

/** What a graph holds that keeps its memory: pieces of the first run, and one block for all values of later runs. */
export const keptBytes = ({ peak }: RunBytes): number => 2 * peak

/** Whether a graph keeps its memory where the graphs that do may hold `room` more bytes. */
export const keepsMemory = (bytes: RunBytes, room: number): 'kept' | 'returned' => {
  if (bytes.peak <= LITTLE) return 'kept'
  return bytes.largest > SHARED && keptBytes(bytes) <= room ? 'kept' : 'returned'
}
