/** Exceptions of the user's code: their place, and callbacks that cannot fail their caller. */
import { harmless, thrownText } from '@tandem-rl/base/host'
import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { userPlace } from '../../packages/base/src/host/thrown.js'

const withStack = (stack: string): Error => Object.assign(new TypeError('no'), { stack })

const OWN = new URL('../../src/', import.meta.url)

describe('the place of an exception', () => {
  it.each([
    ['a function', '    at reward (/home/me/reward.ts:3:9)', '/home/me/reward.ts:3:9'],
    ['a module', '    at file:///home/me/a%20b.ts?x=1:3:9', '/home/me/a b.ts:3:9'],
    ['an async function', '    at async Object.run (file:///home/me/agent.ts:4:2)', '/home/me/agent.ts:4:2'],
    ['an async module', '    at async /home/me/agent.ts:4:2', '/home/me/agent.ts:4:2'],
    ['Windows', String.raw`    at reward (C:\me\reward.ts:3:9)`, String.raw`C:\me\reward.ts:3:9`],
    ['Firefox', 'reward@http://localhost/page.js:3:9', 'http://localhost/page.js:3:9'],
  ])('is read from a frame of %s', (_, frame, place) => {
    expect(userPlace(withStack(`TypeError: no\n${frame}`))).toBe(place)
  })

  it("is the first frame that is not Node's, a package's or ours", () => {
    const others = [
      '    at new Promise (<anonymous>)',
      '    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)',
      `    at tool (${new URL('envs/tools/tool.ts', OWN).href}:3:9)`,
      `    at tool (${new URL('envs/tools/tool.ts', OWN).pathname}:3:9)`,
      '    at parse (/home/me/node_modules/zod/index.js:1:1)',
    ]
    expect(userPlace(withStack([...others, '    at f (/home/me/a.ts:1:2)'].join('\n')))).toBe('/home/me/a.ts:1:2')
    expect(userPlace(withStack(others.join('\n')))).toBeUndefined()
  })

  it('is in the text, and the stack is with TANDEM_VERBOSE', () => {
    const error = withStack('TypeError: no\n    at f (/home/me/a.ts:1:2)\n    at g (/home/me/b.ts:3:4)')
    expect(thrownText(error)).toBe('TypeError: no (at /home/me/a.ts:1:2)')
    vi.stubEnv('TANDEM_VERBOSE', '1')
    expect(thrownText(error)).toBe(`TypeError: no (at /home/me/a.ts:1:2)\n${error.stack}`)
    vi.unstubAllEnvs()
  })

  it('is absent for whatever else is thrown', () => {
    fc.assert(
      fc.property(fc.oneof(fc.anything(), fc.string().map(withStack)), (value) => {
        expect(typeof thrownText(value)).toBe('string')
      }),
    )
  })
})

describe('harmless', () => {
  afterEach(() => vi.restoreAllMocks())

  it('passes arguments on, and warns of what is thrown or rejected, once for each place', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const seen: number[] = []
    const both = harmless('onBoth', (n: number, isLate: boolean) => {
      seen.push(n)
      if (isLate) return Promise.reject(new Error('late'))
      throw new Error('early')
    })
    for (const n of [1, 2]) for (const isLate of [true, false]) both(n, isLate)
    await Promise.resolve()
    expect(seen).toEqual([1, 1, 2, 2])
    expect(warned.mock.calls.map(([text]) => String(text).replace(/ \(at.*?\)/, ''))).toEqual([
      'onBoth threw Error: early; it is reported once for each place',
      'onBoth threw Error: late; it is reported once for each place',
    ])
  })
})
