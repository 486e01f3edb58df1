import { describe, expect, it } from 'vitest'
import { crc32c } from '../src/crc32.js'

describe('crc32c', () => {
  it('has the values of RFC 3720, appendix B.4', () => {
    const hex = (bytes: Uint8Array): string => crc32c(bytes).toString(16)
    expect(hex(new Uint8Array(32))).toBe('8a9136aa')
    expect(hex(new Uint8Array(32).fill(0xff))).toBe('62a8ab43')
    expect(hex(Uint8Array.from({ length: 32 }, (_, i) => i))).toBe('46dd794e')
  })
})
