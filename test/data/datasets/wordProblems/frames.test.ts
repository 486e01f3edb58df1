import { describe, expect, it } from 'vitest'
import {
  CONNECTIVES,
  fill,
  OPENINGS,
  PLACES,
  QUESTIONS,
  STEP_FRAMES,
  suits,
} from '../../../../src/data/datasets/wordProblems/frames.js'
import { THINGS } from '../../../../src/data/datasets/wordProblems/vocabulary.js'

const steps = Object.values(STEP_FRAMES).flat()
const slotsOf = (text: string): readonly string[] => Array.from(text.matchAll(/\{(\w+)\}/g), ([, slot]) => slot!)
const NUMBERS = ['number', 'count', 'more']

describe('the frames', () => {
  it('are many, and all distinct', () => {
    expect(STEP_FRAMES.add.length + STEP_FRAMES.subtract.length).toBeGreaterThanOrEqual(30)
    const all = [...OPENINGS, ...QUESTIONS, ...steps.map(({ text }) => text)]
    expect(new Set(all).size).toBe(all.length)
  })

  it.each(steps.map(({ text }) => text))('has one number: %s', (text) => {
    expect(slotsOf(text).filter((slot) => NUMBERS.includes(slot))).toHaveLength(1)
    expect(text).not.toMatch(/[\d.?!]|^[A-Z]/)
  })

  it.each(OPENINGS)('has one number and the name: %s', (text) => {
    expect(slotsOf(text).filter((slot) => slot !== 'place')).toEqual(['Hero', 'count'])
    expect(text).toMatch(/\.$/)
  })

  it.each(QUESTIONS)('has no number, but the name: %s', (text) => {
    expect(slotsOf(text)).toEqual(['things', 'Hero'])
    expect(text).toMatch(/^[A-Z].*\?$/)
  })

  it('have no numbers of their own', () => {
    const words = [...PLACES, ...Object.values(CONNECTIVES).flat(), ...steps.map(({ text }) => text)].join(' ')
    expect(words).not.toMatch(/\d|\b(two|three|four|half|twice|double|pair|dozen)\b/i)
  })

  it('say that it is more where something is added, and only there', () => {
    expect(STEP_FRAMES.add.every(({ text }) => text.includes('{more}'))).toBe(true)
    expect(STEP_FRAMES.subtract.every(({ text }) => text.includes('{count}'))).toBe(true)
    expect(STEP_FRAMES.multiply.every(({ text }) => /\{number\} times as (many|large)/.test(text))).toBe(true)
  })
})

describe('fill', () => {
  it('fills every slot, and refuses one without a value', () => {
    expect(fill('{a} and {b} and {a}', { a: '$&', b: 'y' })).toBe('$& and y and $&')
    expect(() => fill('{a} and {c}', { a: 'x' })).toThrow("no value of {c} for '{a} and {c}'")
  })
})

describe('suits', () => {
  it('lets only food be eaten', () => {
    const eating = STEP_FRAMES.subtract.filter(({ text }) => /\bate\b/.test(text))
    expect(eating.length).toBeGreaterThan(0)
    for (const thing of THINGS) {
      expect(eating.every((frame) => suits(frame, thing))).toBe(thing.kind === 'food')
    }
  })
})
