import { keyFromSeed } from '@tandem-rl/base'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  LARGEST_TOTAL,
  type PlanLimits,
  type ProblemOperation,
  planner,
} from '../../../../src/data/datasets/wordProblems/plan.js'

const OPERATIONS: readonly ProblemOperation[] = ['add', 'subtract', 'multiply']

const seeds = fc.nat().map(keyFromSeed)

const limits: fc.Arbitrary<PlanLimits> = fc.record({
  minSteps: fc.integer({ min: 1, max: 3 }),
  maxSteps: fc.integer({ min: 3, max: 5 }),
  maxNumber: fc.integer({ min: 6, max: LARGEST_TOTAL }),
  operations: fc.subarray([...OPERATIONS], { minLength: 1 }),
})

const usual: PlanLimits = { minSteps: 2, maxSteps: 3, maxNumber: 20, operations: ['add', 'subtract'] }

const arithmetic = (operation: ProblemOperation, a: number, b: number): number =>
  ({ add: a + b, subtract: a - b, multiply: a * b })[operation]

describe('planner', () => {
  it('makes chains that are true and within the limits', () => {
    fc.assert(
      fc.property(limits, seeds, (within, key) => {
        const { start, steps } = planner(within)(key)
        expect(steps.length).toBeGreaterThanOrEqual(within.minSteps)
        expect(steps.length).toBeLessThanOrEqual(within.maxSteps)
        expect([start, ...steps.slice(0, -1).map(({ after }) => after)]).toEqual(steps.map(({ before }) => before))
        for (const { operation, operand, before, after } of steps) {
          expect(after).toBe(arithmetic(operation, before, operand))
          expect(within.operations).toContain(operation)
          expect(operand).toBeGreaterThanOrEqual(operation === 'multiply' ? 2 : 1)
        }
        for (const number of [start, ...steps.map(({ operand }) => operand)]) {
          expect(number).toBeGreaterThanOrEqual(1)
          expect(number).toBeLessThanOrEqual(within.maxNumber)
        }
        for (const total of steps.flatMap(({ before, after }) => [before, after])) {
          expect(total).toBeGreaterThanOrEqual(0)
          expect(total).toBeLessThanOrEqual(LARGEST_TOTAL)
        }
      }),
    )
  })

  it('is pure', () => {
    fc.assert(
      fc.property(limits, seeds, (within, key) => {
        expect(planner(within)(key)).toEqual(planner(within)(key))
      }),
    )
  })

  it('finds the few chains that there are', () => {
    const products = planner({ minSteps: 6, maxSteps: 6, maxNumber: 99, operations: ['multiply'] })
    const differences = planner({ minSteps: 4, maxSteps: 4, maxNumber: 4, operations: ['subtract'] })
    fc.assert(
      fc.property(seeds, (key) => {
        expect(products(key)).toMatchObject({ start: 1 })
        expect(products(key).steps.at(-1)!.after).toBeLessThanOrEqual(96) // 2 * 2 * 2 * 2 * 2 * 3
        expect(differences(key).steps.map(({ after }) => after)).toEqual([3, 2, 1, 0])
      }),
    )
  })

  it('uses all lengths, operations and operands', () => {
    const drawPlan = planner({ ...usual, operations: OPERATIONS })
    const plans = Array.from({ length: 2000 }, (_, seed) => drawPlan(keyFromSeed(seed)))
    const steps = plans.flatMap((plan) => plan.steps)
    const share = (of: number, all: number): number => of / all
    expect(share(plans.filter((plan) => plan.steps.length === 2).length, plans.length)).toBeCloseTo(0.5, 1)
    for (const operation of OPERATIONS) {
      expect(share(steps.filter((step) => step.operation === operation).length, steps.length)).toBeGreaterThan(0.2)
    }
    for (const operation of ['add', 'subtract']) {
      expect(new Set(steps.filter((step) => step.operation === operation).map(({ operand }) => operand)).size).toBe(20)
    }
  })

  it.each([
    [{ minSteps: 0 }, /minSteps/],
    [{ minSteps: 1.5 }, /minSteps/],
    [{ minSteps: 4 }, /maxSteps/],
    [{ maxSteps: 11 }, /maxSteps/],
    [{ maxNumber: 0 }, /maxNumber/],
    [{ maxNumber: 100 }, /maxNumber/],
    [{ operations: [] }, /operations/],
    [{ operations: ['add', 'add'] as const }, /operations/],
    [{ maxSteps: 7, operations: ['multiply'] as const }, /no chain of 7/],
    [{ maxNumber: 1, operations: ['subtract'] as const }, /no chain of 3/],
    [{ maxNumber: 1, operations: ['multiply'] as const }, /no chain of 3/],
  ])('refuses %j', (changed, message) => {
    expect(() => planner({ ...usual, ...changed })).toThrow(message)
  })
})
