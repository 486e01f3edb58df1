import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { memberRoutes } from '../../../src/modules/remote/memberRoutes.js'

const NAMES = ['a', 'b', 'c']
const candidates = (loads: readonly number[]) => loads.map((load, i) => ({ name: NAMES[i]!, load }))
const ids = (length: number, first = 1): Int32Array => Int32Array.from({ length }, (_, i) => first + i)

describe('routes', () => {
  it('send what is new to the engine with the least to do, the first of equals', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(9), { minLength: 1, maxLength: 3 }), (loads) => {
        const chosen = memberRoutes(9).choose({ prompt: ids(3) }, candidates(loads))
        expect(chosen).toBe(NAMES[loads.indexOf(Math.min(...loads))])
      }),
    )
    expect(memberRoutes(9).choose({ prompt: ids(3) }, [])).toBeUndefined()
  })

  it('send a conversation where it was, while that engine is there and has not far more to do than others', () => {
    const routes = memberRoutes(9)
    const request = { prompt: ids(3), conversation: 'x' }
    expect(routes.choose(request, candidates([1, 0]))).toBe('b')
    expect(routes.choose(request, candidates([0, 4]))).toBe('b')
    expect(routes.choose({ prompt: ids(3) }, candidates([0, 4]))).toBe('a')
    expect(routes.choose(request, candidates([0, 5]))).toBe('a')
    expect(routes.choose(request, candidates([3, 0]))).toBe('a')
    expect(routes.choose(request, [{ name: 'c', load: 9 }])).toBe('c')
  })

  it('send a prompt where its longest prefix of whole blocks was', () => {
    const routes = memberRoutes(99)
    const other = Int32Array.from([...ids(16), ...ids(32, 500)])
    expect(routes.choose({ prompt: ids(48) }, candidates([0, 1]))).toBe('a')
    expect(routes.choose({ prompt: other }, [{ name: 'b', load: 0 }])).toBe('b')
    expect(routes.choose({ prompt: ids(60) }, candidates([3, 0]))).toBe('a')
    expect(routes.choose({ prompt: other.slice(0, 40) }, candidates([0, 3]))).toBe('b')
    expect(routes.choose({ prompt: ids(15) }, candidates([3, 0]))).toBe('b')
  })

  it('remember no more than they may, and the latest of it', () => {
    const routes = memberRoutes(3)
    for (const conversation of ['1', '2', '3', '4']) routes.choose({ prompt: ids(1), conversation }, candidates([1, 0]))
    expect(routes.size()).toBe(3)
    expect(routes.choose({ prompt: ids(1), conversation: '4' }, candidates([0, 1]))).toBe('b')
    expect(routes.choose({ prompt: ids(1), conversation: '1' }, candidates([0, 1]))).toBe('a')
  })
})
