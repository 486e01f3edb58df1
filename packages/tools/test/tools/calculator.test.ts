import { keyFromSeed } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { type CalculatorOptions, calculator } from '../../src/tools/calculator.js'

const context = { state: null, key: keyFromSeed(0), signal: new AbortController().signal }

const ask = async (expression: unknown, options: CalculatorOptions = {}) => {
  const result = await calculator(options).call({ expression }, context)()
  return E.isRight(result) ? result.right.content : `${result.left.kind}: ${result.left.reason}`
}

describe('calculator', () => {
  it.each([
    ['2 + 3 * 4', '14'],
    ['0.1 + 0.2', '0.3'],
    ['2 / 3', '0.6666666667'],
    ['-1 / 8', '-0.125'],
    ['2 ^ 100', '1267650600228229401496703205376'],
    ['1 / 10 ^ 20', '0'],
    ['17 % 5', '2'],
    ['7 / (3 - 3)', 'failed: a quotient by 0'],
    ['2 ^ 0.5', 'failed: a power whose exponent is not an integer'],
    ['9 ^ 9 ^ 9', 'failed: a value has more than 300 digits'],
    ['process.exit()', 'arguments: expected a number or "(", found "p" at character 1'],
  ])('answers %s with %s', async (expression, expected) => {
    expect(await ask(expression)).toBe(expected)
  })

  it('has roots and small numbers in floating point', async () => {
    expect(await ask('2 ^ 0.5', { numbers: 'float' })).toBe('1.4142135623730951')
    expect(await ask('1 / 10 ^ 20', { numbers: 'float' })).toBe('1e-20')
    expect(await ask('0 * -1', { numbers: 'float' })).toBe('0')
    expect(await ask('10 ^ 999', { numbers: 'float' })).toMatch(/^failed: a value is beyond/)
  })

  it('rounds as configured, within its limits', async () => {
    expect(await ask('2 / 3', { places: 2 })).toBe('0.67')
    expect(await ask('10 ^ 5', { maxDigits: 5 })).toBe('failed: a value has more than 5 digits')
    expect(await ask('1 + 1', { maxLength: 4 })).toBe('failed: 5 characters, more than 4')
    expect(() => calculator({ places: -1, maxDigits: 0.5 })).toThrow(
      'calculator: places must be an integer of at least 0, got -1; maxDigits must be an integer of at least 0, got 0.5',
    )
  })

  it('refuses arguments that are no text', async () => {
    expect(await ask(12)).toMatch(/^arguments: invalid arguments/)
  })

  it('law: whatever it is asked, the answer is short', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: fc.constantFrom(...'0123456789.+-*/%^()'), maxLength: 60 }), async (text) => {
        expect(String(await ask(text)).length).toBeLessThan(350)
      }),
    )
  })
})
