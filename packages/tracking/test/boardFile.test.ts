import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type BoardEvent, encodeBoardEvent, tfRecord } from '../src/boardFile.js'

interface Golden {
  readonly events: readonly { readonly event: BoardEvent; readonly hex: string }[]
}

const golden = JSON.parse(readFileSync('test/golden/tensorBoard.json', 'utf8')) as Golden // written by generate/tensorBoard.py

describe('encodeBoardEvent', () => {
  it.each(golden.events)('writes the bytes of TensorBoard for $event.what at step $event.step', ({ event, hex }) => {
    expect(Buffer.from(encodeBoardEvent(event)).toString('hex')).toBe(hex)
  })

  it('refuses a step that is not a natural number', () => {
    const at = (step: number): BoardEvent => ({ what: 'restart', seconds: 1, step })
    expect(() => encodeBoardEvent(at(-1))).toThrow('expected an integer of at least 0, got -1')
    expect(() => encodeBoardEvent(at(0.5))).toThrow('got 0.5')
  })
})

describe('tfRecord', () => {
  it('has the length and the bytes in the places where a reader looks for them', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        const record = tfRecord(bytes)
        expect(record.length).toBe(bytes.length + 16)
        expect(new DataView(record.buffer).getBigUint64(0, true)).toBe(BigInt(bytes.length))
        expect(record.subarray(12, 12 + bytes.length)).toEqual(bytes)
      }),
    )
  })
})
