/** Tables of wrong calls of TensorDict operations: what each says, and where. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { expect, it } from 'vitest'
import { data, meta } from '../../src/data/tensorDict/leaf.js'
import { TensorDict, TensorDictError } from '../../src/data/tensorDict/tensorDict.js'

/** A TensorDict whose keys are looked up when the program runs. */
export const dynamic = (td: TensorDict): TensorDict => td

/** A leaf, and a node with a leaf. */
export const small = (): TensorDict => dynamic(TensorDict({ a: meta(1), n: { b: meta(2) } }, []))

/** One leaf of as many zeros as there are batch elements. */
export const rowsOf = (...batchShape: readonly number[]): TensorDict =>
  dynamic(TensorDict({ d: data(new Array<number>(batchShape.reduce((n, m) => n * m, 1)).fill(0)) }, batchShape))

/** What a TensorDictError knows beside its message; what is left out is not there. */
export interface RefusalDetails {
  /** By default []. */
  readonly path?: readonly string[]
  /** The paths of its problems. What they say stands in the message. */
  readonly paths?: readonly (readonly string[])[]
  readonly axis?: number
  readonly expected?: unknown
  readonly actual?: unknown
}

/** The mistake, the call, its message with the operation in front, and the rest. */
export type Refusal = readonly [title: string, call: () => unknown, message: string, details?: RefusalDetails]

/** Returns the error of a call. Throws if it is not a TensorDictError. */
export const thrownBy = (call: () => unknown): TensorDictError => {
  try {
    scope(() => {
      call()
      return []
    })
  } catch (thrown) {
    if (thrown instanceof TensorDictError) return thrown
    throw thrown
  }
  throw new Error('nothing was thrown')
}

/** The message and fields of an error, as a row. */
export const told = (error: TensorDictError): readonly [message: string, details: RefusalDetails] => {
  const { problems, axis, expected, actual } = error.details
  return [
    error.message,
    { path: error.path, paths: problems?.map(({ path }) => path), axis, expected, actual } as never,
  ] // undefined is left out by `toEqual`
}

/** One test for each row: the call is refused with this message and these details. */
export const itRefuses = (rows: readonly Refusal[]): void => {
  for (const [title, call, message, details] of rows) {
    it(`refuses ${title}`, () => {
      const error = thrownBy(call)
      expect(told(error)).toEqual([message, { path: [], ...details }])
      expect(error.message.startsWith(`${error.operation}: `)).toBe(true)
    })
  }
}

/** One test for each row: the nearest call that is right is not refused. */
export const itAllows = (rows: readonly (readonly [title: string, call: () => unknown])[]): void => {
  for (const [title, call] of rows) {
    it(`allows ${title}`, () => {
      const result = scope(() => {
        call()
        return [true]
      })
      expect(result).toEqual([true])
    })
  }
}
