import { totalmem } from 'node:os'
import { describe, expect, it } from 'vitest'
import { liveMemory } from '../../src/live/memory.js'

describe('liveMemory', () => {
  it('returns at most the memory of the machine', () => {
    expect(liveMemory.free()).toBeGreaterThan(0)
    expect(liveMemory.free()).toBeLessThan(totalmem())
  })
})
