/**
 * Runs before every test file: a fixed seed for properties, and the check that no test leaks tensors or owned values. What `beforeAll` makes
 * is there before and after each test, so that it needs no exception.
 */
import fc from 'fast-check'
import { afterEach, beforeEach, expect } from 'vitest'

fc.configureGlobal({ seed: Number(process.env.FC_SEED), numRuns: Number(process.env.FC_RUNS ?? 100) })

/** What is alive, without starting a backend, and without loading TensorFlow.js for tests that do not use it. */
const alive = async (): Promise<{ readonly tensors: number; readonly owned: number }> => {
  const engine: unknown = Object.getOwnPropertyDescriptor(globalThis, '_tfengine')?.value
  if (engine === undefined) return { tensors: 0, owned: 0 }
  const { ownedCount } = await import('../../src/engine/scope.js')
  // A cast: tfjs keeps its engine under this name, and declares no such global.
  return { tensors: (engine as { state: { numTensors: number } }).state.numTensors, owned: ownedCount() }
}

let before = { tensors: 0, owned: 0 }

beforeEach(async () => {
  before = await alive()
})

afterEach(async () => {
  expect(await alive(), 'what is alive after the test').toEqual(before)
})
