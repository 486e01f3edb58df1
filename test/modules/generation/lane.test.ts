import { describe, expect, it } from 'vitest'
import { growingArray } from '../../../src/modules/generation/runner/growingArray.js'
import { makeLane } from '../../../src/modules/generation/runner/lane.js'
import type { KeyValues } from '../../../src/modules/generation/runner/modelRunner.js'
import { tinyConfig } from '../../kit/models.js'

const config = tinyConfig({ vocabularySize: 24, maxPositions: 1024 })
const { layers, keyValueHeads: heads, headSize: width } = config
const TOKEN_BYTES = 2 * 4 * layers * heads * width

const newLane = (keptBytes = 0) => makeLane({ config, windows: [null], leastRows: 1 }, keptBytes)

const rowOf = (length: number, first = 1): KeyValues => {
  const part = (sign: number) => Float32Array.from({ length: heads * length * width }, (_, i) => sign * (first + i))
  return { length, layers: Array.from({ length: layers }, (_, i) => ({ keys: part(i + 1), values: part(-i - 1) })) }
}

/** Adds tokens to all rows of a lane, and returns the numbers of positions on the way. */
const grow = ({ cache }: ReturnType<typeof newLane>, tokens: number): readonly number[] => {
  const places: number[] = []
  for (let i = 0; i < tokens; i++) {
    const rows = cache.lengths.map((_, row) => row)
    cache.extend(rows.length)
    cache.append(rows, rows, new Float32Array((rows.length * TOKEN_BYTES) / 4).fill(i))
    if (places.at(-1) !== cache.places()) places.push(cache.places())
  }
  return places
}

describe('a lane', () => {
  it('grows by 32 positions or an eighth', () => {
    const made = newLane()
    made.lane.insert([rowOf(96)])
    expect(grow(made, 48)).toEqual([128, 160])
    expect(grow(made, 400)).toEqual([160, 192, 224, 256, 288, 352, 416, 480, 544, 640])
  })

  it('does not grow beyond the announced length if that suffices', () => {
    const made = newLane()
    made.lane.reserve({ rows: 0, start: 0, length: 560 })
    made.lane.insert([rowOf(500)])
    expect(grow(made, 59)).toEqual([512, 576])
    expect(grow(made, 20)).toEqual([576, 672])
  })

  it('holds the memory of its rows and positions, and no more', () => {
    const made = newLane()
    const promised = made.lane.bytesWith(3, 40)
    for (let i = 0; i < 3; i++) made.lane.insert([rowOf(40, i)])
    expect(made.lane.bytes()).toBe(promised)
    expect(made.lane.bytes()).toBe(3 * 64 * TOKEN_BYTES)
    const next = made.lane.bytesWith(1, 64)
    made.lane.insert([rowOf(64)])
    expect(made.lane.bytes()).toBe(next)
    expect(made.lane.bytes()).toBe(4 * 96 * TOKEN_BYTES)
  })

  it('returns memory when half of its rows have left, and keeps the others', () => {
    const made = newLane()
    const slots = Array.from({ length: 8 }, (_, i) => made.lane.insert([rowOf(40, 1000 * i)]))
    for (const slot of slots.slice(0, 6)) made.lane.remove(slot)
    expect(made.lane.bytes()).toBe(2 * 64 * TOKEN_BYTES)
    for (const i of [6, 7]) expect(made.lane.keyValues(slots[i]!, 0, 40)).toEqual(rowOf(40, 1000 * i))
    made.lane.release()
    expect(made.lane.bytes()).toBe(0)
  })
})

describe('a lane that keeps memory', () => {
  it('holds it when rows leave, uses it for others, and returns it at release', () => {
    const made = newLane(64 * 2 ** 20)
    const slots = Array.from({ length: 8 }, (_, i) => made.lane.insert([rowOf(90, 1000 * i)]))
    const held = made.lane.bytes()
    for (const slot of slots.slice(0, 6)) made.lane.remove(slot)
    expect(made.lane.keyValues(slots[7]!, 0, 90)).toEqual(rowOf(90, 7000))
    made.lane.clear()
    expect([made.lane.rows(), made.lane.bytes()]).toEqual([0, held])
    const slot = made.lane.insert([rowOf(40, 5)])
    expect(made.cache.places()).toBe(64) // not the 96 of earlier rows, of which steps would read all
    grow(made, 60)
    expect(made.lane.keyValues(slot, 0, 40)).toEqual(rowOf(40, 5))
    expect(made.lane.bytes()).toBe(held)
    made.lane.release()
    expect(made.lane.bytes()).toBe(0)
  })

  it('returns what is more than it may keep', () => {
    const made = newLane(2 * 64 * TOKEN_BYTES)
    const slots = Array.from({ length: 8 }, (_, i) => made.lane.insert([rowOf(40, 1000 * i)]))
    for (const slot of slots.slice(0, 4)) made.lane.remove(slot)
    expect(made.lane.bytes()).toBe(4 * 64 * TOKEN_BYTES)
    for (const slot of slots.slice(4, 6)) made.lane.remove(slot)
    expect(made.lane.bytes()).toBe(2 * 64 * TOKEN_BYTES)
    made.lane.clear()
    expect(made.lane.bytes()).toBe(2 * 64 * TOKEN_BYTES)
  })
})

describe('a growing array', () => {
  it('keeps its numbers while it grows, and has zeros after them', () => {
    const array = growingArray()
    array.resize(3)
    array.numbers().set([1, 2, 3])
    array.resize(2 ** 22) // more than was reserved
    expect([...array.numbers().subarray(0, 5)]).toEqual([1, 2, 3, 0, 0])
    expect(array.bytes()).toBe(2 ** 24)
    array.resize(2)
    array.resize(4)
    expect([...array.numbers()]).toEqual([1, 2, 0, 0])
  })

  it('returns its memory without the garbage collector', () => {
    const array = growingArray()
    array.resize(2 ** 20)
    const { buffer } = array.numbers()
    array.resize(0)
    expect([buffer.byteLength, array.bytes()]).toEqual([0, 0])
  })
})
