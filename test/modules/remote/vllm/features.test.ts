import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { hasFeature, needed, parseRelease, VLLM_FEATURES } from '../../../../src/modules/remote/vllm/features.js'

const release = fc.tuple(fc.nat(2), fc.nat(40), fc.nat(9))

describe('parseRelease', () => {
  it.each([
    ['0.10.2', [0, 10, 2]],
    ['0.11.1rc2.dev3+g1a2b', [0, 11, 1]],
    ['v1.0', [1, 0, 0]],
    ['0.32.0+tandem', [0, 32, 0]],
    ['', null],
    ['newest', null],
  ])('reads %j', (text, expected) => {
    expect(parseRelease(text)).toEqual(expected)
  })

  it('reads back what it is written as', () => {
    fc.assert(
      fc.property(release, (numbers) => {
        expect(parseRelease(numbers.join('.'))).toEqual(numbers)
      }),
    )
  })
})

describe('hasFeature', () => {
  it('holds from the first release on, and for every later one', () => {
    fc.assert(
      fc.property(release, release, (a, b) => {
        const [older, newer] = [a, b].sort((x, y) => x[0] - y[0] || x[1] - y[1] || x[2] - y[2])
        if (hasFeature(older!, 'pause mode keep')) expect(hasFeature(newer!, 'pause mode keep')).toBe(true)
      }),
    )
    expect(hasFeature([0, 16, 0], 'pause mode keep')).toBe(true)
    expect(hasFeature([0, 15, 9], 'pause mode keep')).toBe(false)
    expect(hasFeature([1, 0, 0], 'spans of labels in answers')).toBe(true)
  })

  it('has the releases of the reference, and names their requirements', () => {
    expect(VLLM_FEATURES['/inference/v1/generate']).toEqual([0, 12, 0])
    expect(needed('/abort_requests')).toBe('/abort_requests needs vLLM 0.26.0 or newer')
  })
})
