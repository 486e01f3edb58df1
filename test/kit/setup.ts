/**
 * Runs before every test file: a fixed seed for properties, and the check that no test leaks
 * tensors or owned values. What `beforeAll` makes is there before and after each test, so that it
 * needs no exception.
 */
import fc from 'fast-check'
import { afterEach, beforeEach, expect } from 'vitest'

fc.configureGlobal({ seed: Number(process.env.FC_SEED), numRuns: Number(process.env.FC_RUNS ?? 100) })

interface Alive {
  readonly tensors: number
  /**
   * Lost once a tensor had NaN bytes. Their number is not looked at: tfjs adds up those of strings
   * wrongly.
   */
  readonly bytes: 'counted' | 'lost'
  readonly owned: number
}

const NOTHING: Alive = { tensors: 0, bytes: 'counted', owned: 0 }

/** Live tensors, without starting a backend or loading TensorFlow.js. */
const alive = async (): Promise<Alive> => {
  const engine: unknown = Object.getOwnPropertyDescriptor(globalThis, '_tfengine')?.value
  if (engine === undefined) return NOTHING
  const { ownedCount } = await import('@tandem-rl/tfjs-onnxruntime/scope')
  // A cast: tfjs keeps its engine under this name, and declares no such global.
  const { state } = engine as { state: { numTensors: number; numBytes: number } }
  return { tensors: state.numTensors, bytes: Number.isNaN(state.numBytes) ? 'lost' : 'counted', owned: ownedCount() }
}

let before = NOTHING

beforeEach(async () => {
  before = await alive()
})

afterEach(async () => {
  expect(await alive(), 'what is alive after the test').toEqual(before)
})
