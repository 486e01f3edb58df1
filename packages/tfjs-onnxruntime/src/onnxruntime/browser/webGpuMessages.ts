/**
 * The messages between the thread that trains and the worker that holds the GPU.
 *
 * WebGPU answers asynchronously and the engine blocks, so the sessions live in a worker of their
 * own. The thread that trains posts a message and waits on shared memory for the answer.
 */
import type { OnnxArray, OnnxType, SessionOptions } from '../library.js'

/** An input of a run: data, or the number of a tensor on the GPU. */
export type GpuFeed =
  | { readonly data: OnnxArray; readonly type: OnnxType; readonly dims: readonly number[] }
  | { readonly tensor: number }

export type GpuRequest =
  /** Loads the library. Answered by a message, unlike the others. */
  | { readonly kind: 'start'; readonly folder: string }
  | {
      readonly kind: 'create'
      readonly memory: SharedArrayBuffer
      readonly session: number
      readonly model: Uint8Array
      readonly options: Partial<SessionOptions>
    }
  | {
      readonly kind: 'run'
      readonly memory: SharedArrayBuffer
      readonly session: number
      readonly feeds: Readonly<Record<string, GpuFeed>>
      readonly fetches: readonly string[]
    }
  /** Writes the last answer again, to memory that has room for it. */
  | { readonly kind: 'answer'; readonly memory: SharedArrayBuffer }
  /** The requests below have no answer. */
  | { readonly kind: 'freeTensor'; readonly tensor: number }
  | { readonly kind: 'freeSession'; readonly session: number }

/** The answer to `start`. `problem` is `null` if the library has started. */
export interface GpuStarted {
  readonly problem: string | null
}

/** An output of a run: the place of its data in the answer, or the number of a GPU tensor. */
export type GpuResult =
  | { readonly type: string; readonly at: number; readonly bytes: number; readonly dims: readonly number[] }
  | { readonly tensor: number; readonly dims: readonly number[] }

/** The first part of an answer, as JSON. Data of results follows it. */
export interface GpuAnswer {
  readonly problem?: string
  readonly results?: readonly GpuResult[]
}
