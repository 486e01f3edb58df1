import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checkOptions, nearestName, unknownName } from '../src/options.js'

const TABLE = "prompts: number, repeats: number, keep: 'columns' | 'task'"

/** Checks options given as JSON, as from plain JavaScript. */
const check = (text: string): (() => void) => {
  const options = JSON.parse(text) as object // any JSON at all: what the test is about
  return () => checkOptions('Env', options, TABLE)
}

describe('checkOptions', () => {
  it('takes options that exist, and undefined as not given', () => {
    expect(check('{"prompts": 1, "keep": "task"}')).not.toThrow()
    expect(() => checkOptions('Env', { prompts: 1, repeats: undefined }, TABLE)).not.toThrow()
  })

  it('refuses an unknown option with the nearest known name and the list of options', () => {
    expect(check('{"prompts": 1, "repeat": 2}')).toThrow(
      new RangeError("Env: unknown option 'repeat': did you mean 'repeats'? (the options are prompts, repeats, keep)"),
    )
    expect(check('{"seed": 2}')).toThrow("Env: unknown option 'seed' (the options are prompts, repeats, keep)")
    expect(() => checkOptions('Plain', { x: 1 }, '')).toThrow("Plain: unknown option 'x' (it has no options)")
  })

  it('reports every wrong option at once', () => {
    expect(check('{"prompts": "2", "keep": "row", "repeat": 1}')).toThrow(
      /prompts must be a number, got "2"; keep must be 'columns' or 'task', got "row"; unknown option 'repeat'/,
    )
  })

  it.each(['null', '[]', '"prompts"', '3'])('refuses %s instead of a record', (text) => {
    expect(check(text)).toThrow(`Env: the options must be a record, got ${text}`)
  })

  it('refuses names of the object prototype', () => {
    expect(check('{"__proto__": 1, "constructor": 2}')).toThrow(/unknown option '__proto__'; unknown option 'construc/)
  })

  it('quotes values that JSON cannot hold', () => {
    const loop: { self?: unknown } = {}
    loop.self = loop
    const wrong = { f: loop, g: 1n, h: () => 1 }
    expect(() => checkOptions('F', wrong, 'f: string, g: string, h: string | number')).toThrow(
      'f must be a string, got [object Object]; g must be a string, got 1; h must be a string or a number, got a function',
    )
    expect(() => checkOptions('F', { f: () => 1, g: 'x'.repeat(999) }, 'f: anything, g: number')).toThrow(
      /got "x{63}\.\.\. \(/,
    )
  })

  it.each([
    ['number', 'a number', [0, Number.NaN], ['1', null]],
    ['pair', 'two numbers', [[1, 2]], [[1], [1, '2'], 1]],
    ['number | pair', 'a number or two', [1, [1, 2]], [[1, 2, 3], '1']],
    ['string', 'a string', ['', 'a'], [1]],
    ['boolean', 'true or false', [true, false], ['true', 1]],
    ['function', 'a function', [() => 1, Map], [{}]],
    ['record', 'a record', [{}, new Map()], [null, [], () => 1]],
    ['list', 'a list', [[], [1]], [{}, 'ab']],
    ['number | null', 'a number or null', [1, null], ['null']],
    ["'a' | 'b-c' | record", "'a' or 'b-c' or a record", ['a', 'b-c', {}], ['b', "'a'", ['a']]],
    ['anything', 'anything', [null, 1, []], []],
  ])('takes values of the kind %s', (kind, expected, right, wrong) => {
    for (const x of right) expect(() => checkOptions('F', { x }, `x: ${kind}`)).not.toThrow()
    for (const x of wrong) expect(() => checkOptions('F', { x }, `x: ${kind}`)).toThrow(`x must be ${expected}, got `)
  })
})

describe('nearestName', () => {
  it.each([
    ['max_steps', 'maxSteps'],
    ['MAXSTEPS', 'maxSteps'],
    ['maxStep', 'maxSteps'],
    ['reapeats', 'repeats'],
    ['rpeeats', 'repeats'],
    ['temperature', undefined],
    ['', undefined],
  ])('%s means %s', (name, meant) => {
    expect(nearestName(name, ['prompts', 'repeats', 'maxSteps'])).toBe(meant)
  })

  it('finds a known name itself, and a name with one letter changed', () => {
    const words = fc.uniqueArray(fc.stringMatching(/^[a-z]{4,12}$/), { minLength: 1, maxLength: 8 })
    fc.assert(
      fc.property(words, fc.nat(), fc.nat(), (known, pick, at) => {
        const word = known[pick % known.length]!
        expect(nearestName(word, known)).toBe(word)
        const changed = `${word.slice(0, at % word.length)}9${word.slice((at % word.length) + 1)}`
        expect(nearestName(changed, [word])).toBe(word)
      }),
    )
  })

  it('is near to nothing if the name is long, and does not quote all of it', () => {
    expect(nearestName('a'.repeat(100_000), ['a'.repeat(100_000)])).toBeUndefined()
    expect(unknownName('option', 'a'.repeat(1000), ['b'])).toBe(`unknown option '${'a'.repeat(64)}...'`)
  })
})
