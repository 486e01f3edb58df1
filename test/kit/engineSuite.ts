/**
 * The conformance suite of `LLMEngine`, in one call: `engineSuite('the engine', makeEngine)`. It
 * knows the engine by its interface, and the model behind it by its scores.
 */
import { afterEach, beforeEach, describe } from 'vitest'
import { cacheCases, controlCases, failureCases, weightCases } from './engineSuiteControl.js'
import type { Made, SuiteEngine } from './engineSuiteParts.js'
import { endingCases, samplingCases } from './engineSuiteSampling.js'

/** Tests an engine that `make` makes anew for each case; the suite closes it. */
export const engineSuite = (name: string, make: () => SuiteEngine | Promise<SuiteEngine>): void => {
  describe(name, () => {
    let current: SuiteEngine | undefined
    const made: Made = () => current!

    beforeEach(async () => {
      current = await make()
    })

    afterEach(async () => {
      await current!.engine.close()
    })

    describe('sampling', () => samplingCases(made))
    describe('ends of completions', () => endingCases(made))
    describe('control of requests', () => controlCases(made))
    describe('failures', () => failureCases(made))
    describe('weights and adapters', () => weightCases(made))
    describe('shared prompts', () => cacheCases(made))
  })
}
