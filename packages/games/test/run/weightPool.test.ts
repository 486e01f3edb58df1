/** Pools of old weights: which versions are kept, drawn and restored. */
import { writeFileSync } from 'node:fs'
import { child, keyFromSeed, orThrow } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { useEngine } from '../../../../test/kit/engine.js'
import { useTemporaryFolder } from '../../../../test/kit/runs.js'
import { type WeightPool, weightPool } from '../../src/run/weightPool.js'

useEngine()
const at = useTemporaryFolder()

const weights = (version: number) => ({ w: tf.tensor1d([version, -version]) })

/** Offers the weights of each version up to `last`. */
const grown = (options: { readonly size: number; readonly every: number }, last: number): WeightPool => {
  using start = own(weights(0))
  const pool = weightPool('pool', start.value, options)
  for (let version = 1; version <= last; version++) {
    using each = own(weights(version))
    pool.offer(each.value, version)
  }
  return pool
}

const firstOf = (drawn: ReturnType<WeightPool['draw']>): number => drawn.w!.dataSync()[0]!

describe('weightPool', () => {
  it.each([
    [{ size: 4, every: 2 }, 6, [0, 2, 4, 6]],
    [{ size: 4, every: 2 }, 8, [0, 4, 8]],
    [{ size: 4, every: 2 }, 100, [0, 32, 64, 96]],
    [{ size: 1, every: 5 }, 14, [10]],
  ])('%j keeps weights over the whole run: %i updates', (options, last, versions) => {
    const pool = grown(options, last)
    expect(pool.versions()).toEqual(versions)
    expect(firstOf(pool.newest())).toBe(versions.at(-1))
    pool.release()
  })

  it('draws each of them, by a key', () => {
    const pool = grown({ size: 4, every: 2 }, 6)
    const drawn = Array.from({ length: 60 }, (_, i) => firstOf(pool.draw(child(keyFromSeed(1), i))))
    expect([...new Set(drawn)].sort()).toEqual([0, 2, 4, 6])
    expect(firstOf(pool.draw(child(keyFromSeed(1), 7)))).toBe(drawn[7])
    pool.release()
  })

  it('resumes from its files, and an offer of the same version changes nothing', async () => {
    const pool = grown({ size: 4, every: 2 }, 9)
    for (const [name, content] of Object.entries(pool.files())) writeFileSync(at(name), content)
    const again = grown({ size: 4, every: 2 }, 0)
    orThrow(await again.restore(at('.'), liveFiles)())
    expect(again.versions()).toEqual(pool.versions())
    scope(() => again.offer(weights(8), 8))
    expect(again.versions()).toEqual([0, 4, 8])
    expect(firstOf(again.newest())).toBe(8)
    for (const each of [pool, again]) each.release()
  })

  it('refuses sizes and intervals that are not counts', () => {
    const start = scope(() => weights(0))
    expect(() => weightPool('pool', start, { size: 0, every: 1 })).toThrow(/size must be/)
    expect(() => weightPool('pool', start, { size: 2, every: 0.5 })).toThrow(/every must be/)
    start.w.dispose()
  })
})
