import { execFileSync } from 'node:child_process'
import * as tf from '@tensorflow/tfjs-core'
import { afterEach, describe, expect, it } from 'vitest'
import { compiledFolder } from '../../../test/kit/compiled.js'
import { useEngine } from '../../../test/kit/engine.js'
import { debugOwnership, liveOwned, type OwnedSite, siteIn } from '../src/ownership.js'
import { own } from '../src/scope.js'

useEngine()
afterEach(() => debugOwnership('off'))

/** This file and the line that the caller is on. */
const here = (offset: number): RegExp => {
  const line = Number(/ownership\.test\.ts:(\d+)/.exec(new Error().stack!.split('\n')[2]!)![1])
  return new RegExp(`packages/tfjs-onnxruntime/test/ownership\\.test\\.ts:${line + offset}:\\d+`)
}

describe('the debug mode of ownership', () => {
  it('lists what is owned, with the line that owned it, until it is released', () => {
    debugOwnership('on')
    const place = here(1)
    const first = own([tf.scalar(1), tf.scalar(2)])
    const second = own(tf.scalar(3))
    expect(liveOwned()).toEqual([
      { site: expect.stringMatching(place), tensors: 2 },
      { site: expect.stringMatching(/ownership\.test\.ts/), tensors: 1 },
    ])
    first.release()
    expect(liveOwned()).toHaveLength(1)
    second.release()
    expect(liveOwned()).toEqual([])
  })

  it('names that line for a use after release and for a second release', () => {
    debugOwnership('on')
    const place = here(1)
    const owned = own(tf.scalar(1))
    owned.release()
    const origin = new RegExp(`\\(owned at .*${place.source}\\)$`)
    expect(() => owned.value).toThrow(origin)
    expect(() => owned.release()).toThrow(origin)
  })

  it('remembers nothing when it is off', () => {
    const owned = own(tf.scalar(1))
    expect(liveOwned()).toEqual([])
    owned.release()
    expect(() => owned.release()).toThrow(/^own: released twice$/)
  })

  it('forgets a value that is released after it was turned off', () => {
    debugOwnership('on')
    const owned = own(tf.scalar(1))
    debugOwnership('off')
    owned.release()
    expect(liveOwned()).toEqual([])
  })
})

/** The output of a program that runs with an exposed garbage collector. */
const run = (program: string, env: Readonly<Record<string, string>> = {}): string =>
  execFileSync(process.execPath, ['--expose-gc', '--input-type=module', '--eval', program], {
    cwd: compiledFolder(),
    encoding: 'utf8',
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })

const COLLECT = `
  const collect = async (isDone, times = 200) => {
    for (let i = 0; i < times && !isDone(); i++) {
      globalThis.gc()
      await new Promise((resolve) => setImmediate(resolve))
    }
  }`

describe('a value that is collected', () => {
  it('without a release is reported with the line that owned it; one that was released is not', () => {
    const printed = run(
      `import { debugOwnership, own } from '@tandem-rl/tfjs-onnxruntime'
      import * as tf from '@tensorflow/tfjs-core'
      ${COLLECT}
      const leaks = []
      debugOwnership('on', { report: (leak) => leaks.push(leak.tensors) })
      ;(() => { own([tf.scalar(1), tf.scalar(2)]); own(tf.scalar(3)).release() })()
      const { release } = own([tf.scalar(1), tf.scalar(2), tf.scalar(3)])
      await collect(() => leaks.length > 0)
      await collect(() => leaks.length > 1, 10) // in vain
      release()
      console.log(JSON.stringify(leaks))`,
    )
    expect(JSON.parse(printed.trim().split('\n').at(-1)!)).toEqual([2])
  })

  it('is reported on the console if TANDEM_DEBUG_OWNERSHIP is set', () => {
    const printed = run(
      `import { own } from './packages/tfjs-onnxruntime/src/scope.js'
      import { liveOwned } from './packages/tfjs-onnxruntime/src/ownership.js'
      ${COLLECT}
      let said = ''
      console.warn = (text) => { said ||= text }
      ;(() => { own({ n: 1 }) })()
      const [{ tensors }] = liveOwned()
      await collect(() => said !== '')
      console.log(tensors + said)`,
      { TANDEM_DEBUG_OWNERSHIP: '1' },
    )
    expect(printed.trim().split('\n').at(-1)).toMatch(
      /^0own: a value with 0 tensors, owned at .+, was collected without a release$/,
    )
  })
})

describe('siteIn', () => {
  const inside = new URL('../src/scope.ts', import.meta.url).href
  const stack = (...places: string[]): string => ['Error: x', ...places.map((place) => `    at ${place}`)].join('\n')

  it('finds the first line outside of the package, of Node and of other packages', () => {
    expect(
      siteIn(
        stack(
          `own (${inside}:10:3)`,
          'node:internal/process/task_queues:95:5',
          'async Promise.all (index 0)',
          'pipe (/app/node_modules/fp-ts/lib/function.js:1:1)',
          'async main (file:///app/my%20file.ts:7:9)',
          'other (/app/other.ts:1:1)',
        ),
      ),
    ).toBe('/app/my file.ts:7:9')
    expect(siteIn(stack('C:\\app\\main.ts:3:4'))).toBe('C:/app/main.ts:3:4')
  })

  it('is content with a line inside if there is no other, and says nothing without lines', () => {
    expect(siteIn(stack(`own (${inside}:10:3)`))).toMatch(/src\/scope\.ts:10:3$/)
    expect(siteIn('Error: x')).toBeUndefined()
  })
})

it('is one record for each owned value', () => {
  debugOwnership('on')
  const owned = Array.from({ length: 20 }, (_, i) => own(tf.scalar(i)))
  expect(new Set<OwnedSite>(liveOwned()).size).toBe(20)
  for (const each of owned) each.release()
})
