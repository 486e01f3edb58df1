import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { medianSlope, type Reading, soakPicture, verdictOf } from '../../scripts/kit/soakReadings.js'

const MIB = 2 ** 20

/** A process that holds the same each minute, but for what is changed. */
const hour = (change: (minute: number) => Partial<Reading> = () => ({})): readonly Reading[] =>
  Array.from({ length: 61 }, (_, minutes) => ({
    ...{ minutes, rounds: 5 * minutes, memory: { rss: 500 * MIB, heapUsed: 60 * MIB, external: 10 * MIB } },
    ...{ tensors: { count: 0, bytes: 0, owned: 0 }, descriptors: { file: 3, pipe: 2 }, resources: {} },
    ...change(minutes),
  }))

const memory = (rss: number, heapUsed: number): Partial<Reading> => ({
  memory: { rss: rss * MIB, heapUsed: heapUsed * MIB, external: 0 },
})

describe('medianSlope', () => {
  it('is the slope of points on a line, wherever they are', () => {
    const number = fc.integer({ min: -1000, max: 1000 })
    fc.assert(
      fc.property(number, number, fc.uniqueArray(number, { minLength: 2, maxLength: 20 }), (slope, height, xs) => {
        expect(medianSlope(xs.map((x) => [x, slope * x + height]))).toBeCloseTo(slope, 9)
      }),
    )
  })

  it('is not moved by a quarter of outliers', () => {
    const points = Array.from({ length: 40 }, (_, x) => [x, x % 4 === 1 ? 1e6 * (1 + (x % 3)) : 2 * x] as const)
    expect(medianSlope(points)).toBe(2)
  })

  it('is 0 for fewer than two points, and for points above each other', () => {
    const point = [1, 2] as const
    expect([[], [point], [point, [1, 9] as const]].map(medianSlope)).toEqual([0, 0, 0])
  })
})

describe('the verdict on a long run', () => {
  it('is flat for a process that holds the same each minute, whatever it took to warm up', () => {
    const warm = hour((minute) => memory(minute < 10 ? 200 + 30 * minute : 500 + (minute % 3), 60))
    expect(verdictOf(warm)).toMatchObject({ verdict: 'flat', minutes: 60, rounds: 300, readings: 51, grows: [] })
  })

  it('names what grows', () => {
    expect(verdictOf(hour((minute) => memory(500 + minute, 60)))).toMatchObject({
      ...{ verdict: 'grows', grows: ['rss'], perHour: { rss: 60 } },
    })
    expect(verdictOf(hour((minute) => memory(500, 60 + minute / 10))).grows).toEqual(['javascript'])
    expect(verdictOf(hour((minute) => ({ descriptors: { file: 3, socket: minute } }))).grows).toEqual(['descriptors'])
    const tensors = (minute: number) => ({ tensors: { count: minute, bytes: minute * MIB, owned: minute } })
    expect(verdictOf(hour(tensors)).grows).toEqual(['tensors', 'tensorBytes', 'owned'])
  })

  it('of a short run judges what is counted, and no slope of memory', () => {
    const growing = hour((minute) => memory(500 + 10 * minute, 60)).slice(0, 20)
    expect(verdictOf(growing)).toMatchObject({ verdict: 'too short', grows: [] })
    const leaking = hour((minute) => ({ resources: { Timeout: minute } })).slice(0, 20)
    expect(verdictOf(leaking)).toMatchObject({ verdict: 'grows', grows: ['resources'] })
    expect(verdictOf([])).toMatchObject({ verdict: 'too short', readings: 0 })
  })

  it('has a picture of memory and of what is held', () => {
    const text = soakPicture(hour())
    for (const name of ['resident', 'file descriptors', 'live tensors']) expect(text).toContain(name)
  })
})
