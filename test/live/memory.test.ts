import { totalmem } from 'node:os'
import { describe, expect, it } from 'vitest'
import { liveMemory } from '../../src/live/memory.js'

describe('liveMemory', () => {
  it('says bytes that are not more than the machine has', () => {
    expect(liveMemory.free()).toBeGreaterThan(0)
    expect(liveMemory.free()).toBeLessThan(totalmem())
  })
})
