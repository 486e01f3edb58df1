/** The same calls on tfjs's `cpu` backend and on ours, compared. */
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { expect, it, vi } from 'vitest'
import type { RecordingBackend } from '../../packages/tfjs-onnxruntime/src/onnxruntime/backend.js'
import { cpuBackend } from '../../packages/tfjs-onnxruntime/src/onnxruntime/fallback.js'
import { type CloseTolerance, expectClose } from './close.js'
import { type HostTensor, toTensor } from './hostTensor.js'

export type BackendName = 'cpu' | 'onnxruntime'

/**
 * The results of a call. float32 values are rounded to float32, because the cpu backend sometimes
 * keeps more digits.
 */
export interface Outcome {
  readonly dtype: tf.DataType
  readonly shape: readonly number[]
  readonly values: readonly number[]
}

/** The operands of a kernel by position; those that a kernel does not have are missing. */
type Operands = Readonly<Record<'a' | 'b' | 'c' | 'd', tf.Tensor>> & { readonly all: readonly tf.Tensor[] }

export type Call<A> = (operands: Operands, options: A) => tf.Tensor | readonly tf.Tensor[]

/** Operands and what else the call is given. */
export interface KernelCase<A> {
  readonly inputs: readonly HostTensor[]
  readonly options: A
}

/** Runs `f` with another backend active, and makes the one that was active so again. */
export const onBackend = <T>(name: BackendName, f: () => T): T => {
  const before = tf.getBackend()
  tf.setBackend(name) // takes effect at once for a backend that exists already
  try {
    return f()
  } finally {
    tf.setBackend(before)
  }
}

const outcomeOf = (tensor: tf.Tensor): Outcome => {
  const { dtype, shape } = tensor
  return { dtype, shape, values: Array.from(tensor.dataSync(), dtype === 'float32' ? Math.fround : Number) }
}

/** The results of a call on one backend, as plain numbers. Nothing stays alive. */
export const outcomesOn = <A>(
  name: BackendName,
  { inputs, options }: KernelCase<A>,
  call: Call<A>,
): readonly Outcome[] =>
  onBackend(name, () => {
    const results: Outcome[] = []
    tf.tidy(() => {
      const all = inputs.map(toTensor)
      const [a, b, c, d] = all as [tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor] // a call names only operands that it has
      const made = call({ a, b, c, d, all }, options)
      for (const tensor of Array.isArray(made) ? made : [made]) results.push(outcomeOf(tensor))
    })
    return results
  })

/** `exact` tells negative zero from zero and takes any NaN for any other. */
export type Closeness = CloseTolerance | 'exact'

const expectOutcome = (actual: Outcome, expected: Outcome, within: Closeness): void => {
  expect({ dtype: actual.dtype, shape: actual.shape }).toEqual({ dtype: expected.dtype, shape: expected.shape })
  if (within === 'exact') expect(actual.values).toEqual(expected.values)
  else expectClose(actual.values, expected.values, within)
}

/**
 * Fails unless a call makes the same on both backends: number of results, shapes, dtypes, values.
 */
export const expectSameOnBoth = <A>(given: KernelCase<A>, call: Call<A>, within: Closeness = 'exact'): void => {
  const expected = outcomesOn('cpu', given, call)
  const dataIds = cpuBackend().numDataIds()
  const actual = outcomesOn('onnxruntime', given, call)
  expect(cpuBackend().numDataIds(), 'data left on the cpu backend').toBe(dataIds)
  expect(actual).toHaveLength(expected.length)
  for (const [i, outcome] of actual.entries()) expectOutcome(outcome, expected[i]!, within)
}

/** Half of the usual number for each row: there are some 180 rows. `FC_RUNS` scales it. */
const RUNS = Math.ceil((fc.readConfigureGlobal().numRuns ?? 100) / 2)

/** One kernel and how to test it. */
export interface KernelRow {
  readonly kernel: string
  readonly title: string
  readonly form: 'native' | 'cpu'
  readonly check: (observe: (run: () => void) => void) => void
}

export interface RowOptions {
  readonly within?: Closeness
  /** Says which of several rows of one kernel this is. */
  readonly on?: string
  /** `cpu`: the rule hands these inputs to the cpu backend, by design. */
  readonly form?: 'native' | 'cpu'
}

/**
 * A row of the table of kernels: `kernel`, called by `call`, makes on `cases` the same on both
 * backends.
 */
export const row = <A>(
  kernel: string,
  cases: fc.Arbitrary<KernelCase<A>>,
  call: Call<A>,
  options: RowOptions = {},
): KernelRow => {
  const { within = 'exact', on, form = 'native' } = options
  return {
    kernel,
    title: on === undefined ? kernel : `${kernel} (${on})`,
    form,
    check: (observe) => {
      const law = fc.property(cases, (given) => {
        observe(() => expectSameOnBoth(given, call, within))
      })
      fc.assert(law, { numRuns: RUNS })
    },
  }
}

/**
 * A place where onnxruntime and tfjs's cpu backend disagree for good. Rows draw their operands
 * around it.
 */
export interface KnownDifference {
  readonly kernel: string
  readonly reason: string
  readonly inputs: readonly HostTensor[]
  readonly call: Call<undefined>
}

/**
 * Registers a test for each difference: it fails when the difference is gone, so that the list
 * stays true.
 */
export const knownDifferences = (differences: readonly KnownDifference[]): void => {
  for (const { kernel, reason, inputs, call } of differences) {
    it(`known difference of ${kernel}: ${reason}`, () => {
      const given = { inputs, options: undefined }
      const { state } = tf.engine()
      const bytes = state.numBytes
      expect(outcomesOn('onnxruntime', given, call)).not.toEqual(outcomesOn('cpu', given, call))
      // A shape with a hole has NaN bytes, and so have all tensors together ever after, in each
      // file that this process tests.
      if (Number.isNaN(state.numBytes)) state.numBytes = bytes
    })
  }
}

/**
 * Registers a test for each row, and one that says that no kernel of `kernels()` is without a row.
 * A native row fails if its kernel is never called, or is never done by onnxruntime.
 */
export const kernelLaws = (
  backend: () => RecordingBackend,
  kernels: () => readonly string[],
  rows: readonly KernelRow[],
): void => {
  const fallbacksOf = (kernel: string): number => backend().stats().fallbacks[kernel] ?? 0

  for (const { kernel, title, form, check } of rows) {
    it(`${title} equals the cpu backend's`, () => {
      const calls = vi.spyOn(tf.getKernel(kernel, 'onnxruntime'), 'kernelFunc')
      let native = 0
      check((run) => {
        const before = fallbacksOf(kernel)
        run()
        if (fallbacksOf(kernel) === before) native++
      })
      expect(calls).toHaveBeenCalled()
      calls.mockRestore()
      if (form === 'native') expect(native, 'runs that did not fall back').toBeGreaterThan(0)
      else expect(native, 'runs that did not fall back').toBe(0)
    })
  }

  it('every kernel rule has a row', () => {
    const tested = new Set(rows.filter(({ form }) => form === 'native').map(({ kernel }) => kernel))
    expect(kernels().filter((kernel) => !tested.has(kernel))).toEqual([])
  })
}
