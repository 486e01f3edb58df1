import { orThrow } from '@tandem-rl/base'
import { describe, expect, it } from 'vitest'
import { computeEngineOpinion } from '../../../../src/envs/rewards/math/computeEngine.js'

describe('computeEngineOpinion', () => {
  it('tells equal expressions from others, in any order of questions, and says nothing about what it cannot read', async () => {
    const opinion = orThrow(await computeEngineOpinion()())
    const ask = () => [
      opinion('\\frac{1}{2}', '0.5'),
      opinion('2^{10}', '1024'),
      opinion('2', '3'),
      opinion('\\frac{', '1'),
      opinion('1'.repeat(300), '1'.repeat(300)),
      opinion('9^{9^{9}}', '1'),
      opinion('9!!!!', '1'),
    ]
    const first = ask()
    expect(first).toEqual([true, true, false, undefined, undefined, undefined, undefined])
    expect(ask()).toEqual(first)
  })
})
